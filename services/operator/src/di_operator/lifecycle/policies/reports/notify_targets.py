"""Reports notification targets of a job that this installation does not have."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.notification_targets import named_targets

REASON: Final = "NoSuchTarget"
_MOST: Final = 8
"""Maximum number of names in the message; the annotation may have thousands."""
_LONGEST: Final = 63
_SOLVED: Final = Report(
    conditions=(
        Aside(
            type=Problem.NOTIFY_TARGET_UNKNOWN,
            value=False,
            reason="TargetsKnown",
            message="this installation has every target that the job names",
        ),
    )
)


def report_targets(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition NotifyTargetUnknown."""
    named, known = named_targets(snapshot.job), snapshot.notification_targets
    missing = sorted(named - known) if known is not None and named else ()
    if not missing or known is None:
        return _SOLVED
    shown = ", ".join(repr(name[:_LONGEST]) for name in missing[:_MOST])
    more = f" and {len(missing) - _MOST} others" if len(missing) > _MOST else ""
    there = ", ".join(sorted(known)) or "none"
    message = (
        f"the annotation diengine/notify names {shown}{more}, which does not exist; "
        f"targets of this installation: {there}"
    )
    found = Aside(type=Problem.NOTIFY_TARGET_UNKNOWN, value=True, reason=REASON, message=message)
    return Report(conditions=(found,))


NOTIFY_TARGETS: Final = Policy(report=report_targets)
