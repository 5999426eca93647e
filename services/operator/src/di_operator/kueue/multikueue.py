"""Role of this cluster for a job with a queue: local, or manager or worker of MultiKueue.

With MultiKueue (https://kueue.sigs.k8s.io/docs/concepts/multikueue/) a manager cluster keeps the
job that its user created, and a Workload that uses quota there. MultiKueue creates both again in
worker clusters, keeps those of the cluster that admits it first, and copies the status of that job
back. It supports one Workload per job, and treats a Workload with a different spec than the
manager's as another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

from di_api.conditions import condition_of
from di_api.field_error import mapping
from di_api.names import PREBUILT_WORKLOAD
from di_api.ownership import is_dispatched
from di_api.timestamps import parse_time

QUEUED: Final = "Queued"
"""Condition of a job that shows whether it waits in a queue."""


class MultiKueueRole(Enum):
    """Role of this cluster for a job."""

    LOCAL = "local"
    """MultiKueue does not handle the job."""
    MANAGER = "manager"
    """Another cluster runs the job: here it has a Workload and no pods."""
    WORKER = "worker"
    """MultiKueue created the job and its Workload here for another cluster."""

    @property
    def is_whole(self) -> bool:
        """Return whether one Workload covers everything that the job requests."""
        return self is not MultiKueueRole.LOCAL


def multikueue_role(job: Mapping[str, Any]) -> MultiKueueRole:
    """Return the role of this cluster for a job with a queue."""
    if is_dispatched(job):
        return MultiKueueRole.MANAGER
    return MultiKueueRole.WORKER if prebuilt_workload(job) else MultiKueueRole.LOCAL


def prebuilt_workload(job: Mapping[str, Any]) -> str:
    """Return the name of the Workload that MultiKueue created with the job; empty if there
    is none.
    """
    metadata = mapping(job.get("metadata"))
    for field in ("labels", "annotations"):
        name = mapping(metadata.get(field)).get(PREBUILT_WORKLOAD)
        if isinstance(name, str) and name:
            return name
    return ""


def is_admitted_elsewhere(job: Mapping[str, Any], since: datetime | None) -> bool:
    """Return whether the status of a manager's job comes from a cluster that admitted it at `since`
    or later; False if that is not known.

    MultiKueue copies the status a moment before it records that the cluster has the job. Times are
    whole seconds by each cluster's own clock. A cluster with the same second can have got the job
    later.
    """
    queued = condition_of(job, QUEUED)
    admitted = parse_time(queued.get("lastTransitionTime"))
    if since is None or admitted is None:
        return False
    return queued.get("status") == "False" and admitted >= since
