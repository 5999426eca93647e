"""Reports a reconcile that failed by a defect of the operator: the condition ReconcileFailed."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_api.wording import describe
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem

_SOLVED: Final = Report(
    conditions=(
        Aside(
            type=Problem.RECONCILE_FAILED,
            value=False,
            reason="ReconcileSucceeded",
            message="the operator reconciles the job again",
        ),
    )
)


def defect(error: Exception) -> Aside:
    """Return the condition of a job whose reconcile failed by a defect of the operator.

    It turns False with the next decision about the job.
    """
    what = describe(error)
    message = f"a defect of the operator keeps it from reconciling this job ({what}); it retries"
    reason = type(error).__name__
    return Aside(type=Problem.RECONCILE_FAILED, value=True, reason=reason, message=message)


def report_success(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition of a job whose decision succeeded again."""
    return _SOLVED


RECONCILE_FAILURE: Final = Policy(report=report_success)
