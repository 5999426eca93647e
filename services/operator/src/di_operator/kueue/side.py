"""Where a job with a queue runs: here, or by MultiKueue in another cluster.

By https://kueue.sigs.k8s.io/docs/concepts/multikueue/ a manager cluster keeps the job that its user
made, and a Workload that takes part of a quota there. MultiKueue makes both again in worker
clusters, keeps those of the one that admits it first, and copies the status of that job back. It
knows one Workload of a job, and takes one whose spec is not that of the manager's for another.
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
"""The condition of a job that says whether it waits in a queue."""


class Side(Enum):
    """Which of the clusters this is, to a job."""

    LOCAL = "local"
    """There is no other."""
    MANAGER = "manager"
    """Another one runs it: it has a Workload here, and no pods."""
    WORKER = "worker"
    """It was made here, with its Workload, for another one."""

    @property
    def is_whole(self) -> bool:
        """Whether one Workload has all that the job asks for."""
        return self is not Side.LOCAL


def side_of(job: Mapping[str, Any]) -> Side:
    """Return that of a job with a queue."""
    if is_dispatched(job):
        return Side.MANAGER
    return Side.WORKER if prebuilt_workload(job) else Side.LOCAL


def prebuilt_workload(job: Mapping[str, Any]) -> str:
    """The name of the Workload that MultiKueue made with the job; empty if it made none."""
    metadata = mapping(job.get("metadata"))
    for field in ("labels", "annotations"):
        name = mapping(metadata.get(field)).get(PREBUILT_WORKLOAD)
        if isinstance(name, str) and name:
            return name
    return ""


def is_admitted_elsewhere(job: Mapping[str, Any], since: datetime | None) -> bool:
    """Whether the status of a manager's job is of a cluster that admitted it no earlier than that;
    False if that is not known.

    MultiKueue copies it from there a moment before it writes that this cluster has the job. Times
    are whole seconds, each by the clock of its own cluster; who has the job since the same second
    may have got it after.
    """
    queued = condition_of(job, QUEUED)
    admitted = parse_time(queued.get("lastTransitionTime"))
    if since is None or admitted is None:
        return False
    return queued.get("status") == "False" and admitted >= since
