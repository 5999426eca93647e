"""Replicas that are not what the spec asks for: another count, or pods lost without a failure.

Each change is counted once in ``reschedules``, by what the status recorded: the replicas of each
task (sums of ``taskStatus``), the UIDs of the pods that were lost, and the phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from di_api.model import Phase
from di_operator.lifecycle.pods import Pod
from di_operator.lifecycle.snapshot import Slot, Snapshot
from di_operator.lifecycle.verdict import (
    Verdict,
    count_of,
    countable,
    desired,
    is_counting,
)

_PLACED = frozenset({Phase.STARTING, Phase.RUNNING, Phase.RESTARTING, Phase.RESCHEDULING})

# Seconds for the watch to show what was just created; at least, and for each replica.
_SETTLE_MINIMUM = 2.0
_SETTLE_PER_REPLICA = 0.005


def judge_change(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Count a changed number of replicas, or lost ones, and announce that they are put right."""
    before = snapshot.status
    placed = before.phase in _PLACED
    wanted = desired(snapshot)
    resized = placed and before.desired is not None and before.desired != wanted
    ended = countable(snapshot, (*_lost(snapshot, deleted_too=placed), *snapshot.displaced))
    displaced = {pod.uid for pod in snapshot.displaced}
    moved = [pod for pod in ended if pod.uid in displaced]
    lost = [pod for pod in ended if pod.uid not in displaced]
    gone = _gone(snapshot, now)
    if not (resized or moved or lost or gone):
        return None
    if resized:
        message = _resized(before.desired or {}, wanted)
    elif moved:
        message = f"{count_of(len(moved), 'pod')} to move, {moved[0].name} first"
    else:
        first = lost[0].name if lost else gone[0].name
        message = f"{count_of(len(lost) + len(gone), 'pod')} lost, {first} first"
    # A restart under way goes on and is not renamed for it.
    phase = Phase.RESTARTING if before.phase is Phase.RESTARTING else Phase.RESCHEDULING
    return Verdict(
        phase=phase,
        message=message,
        reschedules=1 if resized or gone or not is_counting(snapshot) else 0,
        counted=(*lost, *moved),
        from_absence=bool(gone),
    )


def settling(snapshot: Snapshot, now: datetime) -> float:
    """Return the seconds for which an object may be missing because it is not visible yet.

    Starting is written when all objects have been created, which another watch may show earlier
    than the objects. Without this pause such a pod would be taken for a deleted one.
    """
    since = snapshot.status.transitioned
    if snapshot.status.phase is not Phase.STARTING or since is None:
        return 0.0
    window = max(_SETTLE_MINIMUM, _SETTLE_PER_REPLICA * len(snapshot.slots))
    passed = (now - since).total_seconds()
    # A clock that was set back must not stretch the pause.
    return window - passed if 0 <= passed < window else 0.0


def had_all(snapshot: Snapshot, now: datetime) -> bool:
    """Whether every pod that the phase speaks of must have been visible by now."""
    phase = snapshot.status.phase
    return phase is Phase.RUNNING or (phase is Phase.STARTING and settling(snapshot, now) <= 0)


def _lost(snapshot: Snapshot, *, deleted_too: bool) -> tuple[Pod, ...]:
    """Pods ended by the cluster or deleted, by us or by anybody."""
    # While Pending, pods that end do so because we suspended the job.
    return (*snapshot.disrupted, *(snapshot.terminating if deleted_too else ()))


def _gone(snapshot: Snapshot, now: datetime) -> tuple[Slot, ...]:
    """Replicas whose pod vanished between two looks; all had one when the phase was written."""
    return snapshot.missing if had_all(snapshot, now) else ()


def _resized(old: Mapping[str, int], new: Mapping[str, int]) -> str:
    changes = [
        f"{task} from {old.get(task, 0)} to {count}"
        for task, count in new.items()
        if old.get(task, 0) != count
    ]
    return f"replicas changed: {', '.join(changes)}"
