"""activeDeadlineSeconds: a job that is active for longer has failed (as in batch/v1 Job)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from di_api.phase import Phase
from di_api.spec import MAX_INT64
from di_operator.lifecycle.reasons import Reason
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def judge_deadline(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Fail the job when its time is up; the time of a suspended job does not run."""
    left, limit = time_left(snapshot, now), _limit(snapshot)
    if left is None or left > 0 or limit is None:
        return None
    return Verdict(
        phase=Phase.FAILED,
        reason=Reason.DEADLINE_EXCEEDED,
        message=f"active for longer than {count_of(limit, 'second')}",
    )


def time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the deadline, None if no clock runs."""
    limit, started = _limit(snapshot), snapshot.status.started
    if limit is None:
        return None
    passed = (now - started).total_seconds() if started is not None else 0.0
    return limit - passed


def _limit(snapshot: Snapshot) -> int | None:
    spec = snapshot.spec
    if spec is not None:
        return None if spec.suspend else spec.active_deadline_seconds
    # Read raw: whatever makes the rest of the spec unreadable, this was meant for a job that runs.
    raw = snapshot.job.get("spec") if snapshot.is_frozen else None
    value = raw.get("activeDeadlineSeconds") if isinstance(raw, Mapping) else None
    is_limit = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_INT64
    return value if is_limit and snapshot.status.started is not None else None
