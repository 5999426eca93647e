"""Reports errors in the spec of a started job, which goes on with the readable part."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem

REASON_REFUSED: Final = "RulesBroken"
REASON_UNREADABLE: Final = "Unreadable"
_GOES_ON: Final = "the job goes on by what could be read: "
_FROZEN: Final = "nothing of the job is created or deleted until its spec can be read: "
_SOLVED: Final = Report(
    conditions=(
        Aside(
            type=Problem.SPEC_INVALID,
            value=False,
            reason="SpecValid",
            message="the spec is valid again",
        ),
    )
)


def report_errors(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition SpecInvalid. A job that never started is Failed instead."""
    if not snapshot.errors or not snapshot.has_started:
        return _SOLVED
    before = _FROZEN if snapshot.is_frozen else _GOES_ON
    found = Aside(
        type=Problem.SPEC_INVALID,
        value=True,
        reason=REASON_UNREADABLE if snapshot.is_frozen else REASON_REFUSED,
        message=before + "; ".join(str(error) for error in snapshot.errors),
    )
    return Report(conditions=(found,))


SPEC_ERRORS: Final = Policy(report=report_errors)
