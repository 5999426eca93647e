"""The ladder: the first rule that has something to say about a job decides on its transition."""

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
    """Return the transition of an active job; None: its pods are brought to what it asks for."""
    if snapshot.spec is None:
        return judge_unreadable(snapshot, now)
    # What is over is neither late nor suspended any more.
    return (
        job_type.judge_end(snapshot, now)
        or first_verdict(BEFORE, snapshot, now)
        or job_type.judge(snapshot, now, settings)
        or first_verdict(AFTER, snapshot, now)
    )
