"""The part of the status that only one type of jobs has."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report


def report_type(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """The fields of the job's type."""
    job_type = job_type_of(snapshot.job, snapshot.spec)
    return Report(fields=job_type.status(snapshot, verdict.phase))


JOB_TYPE: Final = Policy(report=report_type)
