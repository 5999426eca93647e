"""Deletes with preconditions: each carries the UID and the resourceVersion that were read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_kube.resources import PODS, Resource
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.vocabulary.actions import Delete

Object = Mapping[str, Any]


def delete_pod(pod: Pod, *, grace_period_seconds: int | None = None) -> Delete:
    """Delete a pod, by default with its own grace period."""
    return Delete(
        resource=PODS,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        grace_period_seconds=grace_period_seconds,
    )


def delete(resource: Resource, found: Object) -> Delete:
    """Delete an object."""
    metadata = found["metadata"]
    return Delete(
        resource=resource,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
    )


def is_terminating(found: Object) -> bool:
    """Return whether an object is already being deleted."""
    return "deletionTimestamp" in found["metadata"]
