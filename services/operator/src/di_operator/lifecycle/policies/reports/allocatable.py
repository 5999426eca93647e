"""Reports a job that the allocator cannot read: it keeps its nodes and gets no others."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason

REASON_UNREADABLE: Final = "Unreadable"
_SOLVED: Final = Report(
    conditions=(
        Aside(
            type=Problem.NOT_ALLOCATABLE,
            value=False,
            reason="Allocatable",
            message="the allocator can read the job",
        ),
    )
)


def report_allocatable(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition NotAllocatable."""
    grant = snapshot.grant
    if grant is None or grant.reason is not Reason.NOT_ALLOCATABLE:
        return _SOLVED
    found = Aside(
        type=Problem.NOT_ALLOCATABLE, value=True, reason=REASON_UNREADABLE, message=grant.message
    )
    return Report(conditions=(found,))


ALLOCATABLE: Final = Policy(report=report_allocatable)
