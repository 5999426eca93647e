"""activeDeadlineSeconds: a job or a task fails when it has been active for longer.

As in batch/v1 Job the clock starts with the job, and again after a suspension. It also stops while
the job has no pod and waits for nodes or quota: there is no startTime then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from di_api.phase import Phase
from di_api.spec import MAX_INT64
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.reasons import Reason


def judge_deadline(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Fail the job at its deadline; the clock is stopped while the job is suspended."""
    passed = _passed(snapshot, now)
    over = [(limit, whose) for limit, whose in _limits(snapshot) if limit <= passed]
    if not over:
        return None
    limit, whose = min(over)
    return Verdict(
        phase=Phase.FAILED,
        reason=Reason.DEADLINE_EXCEEDED,
        message=f"{whose}active for longer than {count_of(limit, 'second')}",
    )


def time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the first deadline, None if no clock runs."""
    passed = _passed(snapshot, now)
    return min((limit - passed for limit, _ in _limits(snapshot)), default=None)


def _passed(snapshot: Snapshot, now: datetime) -> float:
    started = snapshot.status.started
    return (now - started).total_seconds() if started is not None else 0.0


def _limits(snapshot: Snapshot) -> Iterator[tuple[int, str]]:
    """Yield every running limit, each with the beginning of a sentence about its owner."""
    if (limit := _limit(snapshot)) is not None:
        yield limit, ""
    if snapshot.spec is None or snapshot.spec.suspend:
        return
    limited = {
        task.name: task.active_deadline_seconds
        for task in snapshot.tasks
        if task.active_deadline_seconds is not None
    }
    if not limited:
        return
    done = snapshot.done
    active = {slot.task.name for slot in snapshot.awaited if slot.name not in done}
    for name, own in limited.items():
        if name in active:
            yield own, f"task {name} was "


def _limit(snapshot: Snapshot) -> int | None:
    spec = snapshot.spec
    if spec is not None:
        return None if spec.suspend else spec.active_deadline_seconds
    # Read raw: the deadline of a running job holds even if the rest of its spec is unreadable.
    raw = snapshot.job.get("spec") if snapshot.is_frozen else None
    value = raw.get("activeDeadlineSeconds") if isinstance(raw, Mapping) else None
    is_limit = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_INT64
    return value if is_limit and snapshot.status.started is not None else None


DEADLINE: Final = Policy(judge=judge_deadline, due=time_left)
