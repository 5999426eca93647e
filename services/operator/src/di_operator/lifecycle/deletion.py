"""Deletes that hit only what was seen: every one carries UID and resourceVersion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_operator.lifecycle.actions import DeleteConfigMap, DeleteJob, DeletePod, DeleteService
from di_operator.lifecycle.pods import Pod

Object = Mapping[str, Any]


def delete_pod(pod: Pod, *, grace_period_seconds: int | None = None) -> DeletePod:
    """Delete a pod with its own grace period unless told otherwise."""
    return DeletePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        grace_period_seconds=grace_period_seconds,
    )


def delete_service(service: Object) -> DeleteService:
    """Delete a Service."""
    return DeleteService(**_identity(service))


def delete_configmap(configmap: Object) -> DeleteConfigMap:
    """Delete a ConfigMap."""
    return DeleteConfigMap(**_identity(configmap))


def delete_job(job: Object) -> DeleteJob:
    """Delete a job."""
    return DeleteJob(**_identity(job))


def is_terminating(found: Object) -> bool:
    """Whether an object is being deleted already."""
    return "deletionTimestamp" in found["metadata"]


def _identity(found: Object) -> dict[str, str]:
    metadata = found["metadata"]
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resource_version": metadata["resourceVersion"],
    }
