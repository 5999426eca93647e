"""Checks of jobs and pods before an operation of coordinators."""

from __future__ import annotations

from di_server.model.job import Job, check_active
from di_server.problems import NoSuchJob, NotNow, OutOfBounds


def check_coordinated(job: Job) -> None:
    """Refuse a job without a coordinator.

    Raises:
        OutOfBounds: the job has tasks.
    """
    if not job.has_coordinator:
        raise OutOfBounds(
            f"job {job.ref.id} has tasks and no coordinator; "
            f"see /v2alpha1/job/{job.ref.id}/replicas"
        )


def check_member(job: Job, pod: str) -> None:
    """Refuse a pod that is neither the coordinator nor an aggregator.

    Raises:
        NoSuchJob: the job has no such pod, or no longer.
    """
    if pod != job.coordinator and pod not in job.aggregators:
        raise NoSuchJob(f"no such coordinator: {job.ref.namespace}/{pod}")


def check_open(job: Job) -> None:
    """Refuse a job that cannot be changed.

    Raises:
        NotNow: it has ended, is being deleted or is suspended.
    """
    check_active(job.raw)
    if job.suspended:
        raise NotNow("the job is suspended, resume it first")
