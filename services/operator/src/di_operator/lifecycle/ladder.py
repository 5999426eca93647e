"""The order of the policies: the first one that returns a verdict decides on the transition."""

from __future__ import annotations

from datetime import datetime

from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy_order import AFTER, BEFORE, first_verdict
from di_operator.lifecycle.unreadable_spec import judge_unreadable
from di_operator.lifecycle.vocabulary.decision import Settings


def judge(
    job_type: JobType, snapshot: Snapshot, now: datetime, settings: Settings
) -> Verdict | None:
    """Return the transition of an active job; None if it only has to match its spec."""
    if snapshot.spec is None:
        return judge_unreadable(snapshot, now)
    # A job that has ended can neither exceed its deadline nor be suspended.
    return (
        job_type.judge_end(snapshot, now)
        or first_verdict(BEFORE, snapshot, now)
        or job_type.judge(snapshot, now, settings)
        or first_verdict(AFTER, snapshot, now)
    )
