"""Chooses the type of a job, and reports the status fields of that type."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.coordinated import is_coordinated
from di_api.spec import JobSpec
from di_operator.lifecycle.job_types.coordinator.job_type import WithCoordinator
from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.job_types.tasks.job_type import WithTasks
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import NOTHING, Policy, Report

TASKS: Final[JobType] = WithTasks()
COORDINATOR: Final[JobType] = WithCoordinator()


def job_type_of(job: Mapping[str, Any], spec: JobSpec | None) -> JobType:
    """Return the type of a job, from the raw spec if the parsed one is not available."""
    has_coordinator = is_coordinated(job) if spec is None else spec.coordinated is not None
    return COORDINATOR if has_coordinator else TASKS


def report_type(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the status fields that only the job's type has."""
    fields = job_type_of(snapshot.job, snapshot.spec).status(snapshot, verdict.phase)
    return Report(fields=fields) if fields else NOTHING


JOB_TYPE: Final = Policy(report=report_type)
