"""activeDeadlineSeconds: a job that is active for longer has failed (as in batch/v1 Job)."""

from __future__ import annotations

from datetime import datetime

from di_api.model import Phase
from di_operator.lifecycle.conditions import REASON_DEADLINE
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def judge_deadline(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Fail the job when its time is up; the time of a suspended job does not run."""
    left = time_left(snapshot, now)
    if left is None or left > 0 or snapshot.spec is None:
        return None
    limit = snapshot.spec.active_deadline_seconds or 0
    return Verdict(
        phase=Phase.FAILED,
        reason=REASON_DEADLINE,
        message=f"active for longer than {count_of(limit, 'second')}",
    )


def time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the deadline, None if no clock runs."""
    spec, started = snapshot.spec, snapshot.status.started
    if spec is None or spec.active_deadline_seconds is None or spec.suspend:
        return None
    passed = (now - started).total_seconds() if started is not None else 0.0
    return spec.active_deadline_seconds - passed
