"""Selection of the jobs that the allocator decides on. Raw dicts in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.ownership import is_managed_elsewhere
from di_api.spec import CleanPodPolicy, JobSpec
from di_operator.allocator.observe.gangs import was_let_go
from di_operator.allocator.observe.own_pods import OwnPods
from di_operator.lifecycle.observed.status import Status

Object = Mapping[str, Any]


def gives_way(job: Object, spec: JobSpec, status: Status) -> bool:
    """Return whether the pods of a job are about to be deleted."""
    cleaned = status.is_finished and spec.clean_pod_policy is not CleanPodPolicy.NONE
    return cleaned or spec.suspend or "deletionTimestamp" in job["metadata"]


def is_ours(job: Object, spec: JobSpec, status: Status, own: OwnPods) -> bool:
    """Return whether the allocator decides on a job: it is preemptible, or a gang without pods."""
    if "deletionTimestamp" in job["metadata"] or spec.suspend or status.is_finished:
        return False
    if is_managed_elsewhere(job):
        return False
    return spec.preemptible or (spec.scheduling.gang and not was_let_go(status, own))
