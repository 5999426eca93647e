"""Exponential back-off for replicas that fail again and again, as the kubelet does it.

It is for cases in which no limit ends the job. One is a task with a limit of its own: the
replica's count decides. The other is a loss that no limit counts: the delay follows from how long
such losses have been occurring. These are failures that a rule ignores, and pods that the cluster
ended, rejected or removed. A pod that a client deletes is created again at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from di_operator.lifecycle.observed.ledger import ReplicaRecord
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.vocabulary.rules import Part, Then

FIRST: Final = 10.0
"""Seconds before the second restart; the first is immediate. The delay doubles each time."""
LONGEST: Final = 300.0
FORGOTTEN: Final = 2 * LONGEST
"""Seconds after a loss from which the next one counts as the first again."""


def pause_of(record: ReplicaRecord) -> float:
    """Return the seconds between the last counted failure of a replica and its next pod."""
    again = record.restarts - 2
    return 0.0 if again < 0 else min(LONGEST, FIRST * 2.0 ** min(again, 10))


def pauses_left(snapshot: Snapshot, now: datetime) -> dict[str, float]:
    """Return the seconds for which slots must stay empty, by slot name.

    Slots without a delay are left out. A process group of fixed size starts as a whole: members
    that waited for a late one would give up, and that would count as a failure.
    """
    replicas = snapshot.status.ledger.replicas
    recorded = (slot for slot in snapshot.slots if slot.key in replicas.get(slot.task.name, {}))
    found = [(slot, left) for slot in recorded if (left := _pause_left(snapshot, slot, now)) > 0]
    pauses = {slot.name: left for slot, left in found}
    if groups := snapshot.fixed_groups(pauses):
        longest = dict[str, float]()
        for slot, left in found:
            longest[slot.task.name] = max(left, longest.get(slot.task.name, 0.0))
        members = (slot for slot in snapshot.slots if slot.task.name in groups)
        pauses |= {slot.name: longest[slot.task.name] for slot in members}
    return pauses


def _pause_left(snapshot: Snapshot, slot: Slot, now: datetime) -> float:
    record = snapshot.status.ledger.record(slot.task.name, slot.key)
    counts = slot.task.backoff_limit is not None
    return max(
        _left(pause_of(record) if counts else 0.0, record.last_failure, now),
        _left(_ignored_pause(record), record.last_ignored, now),
    )


def note_losses(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Record when replicas were lost without a counted failure, for the losses in a verdict.

    The verdict's message has the longest delay among them.
    """
    counted = {pod.name for pod in verdict.counted}
    evicted = (pod for pod in snapshot.terminating if pod.is_disrupted)
    ended = {pod.name for pod in (*snapshot.disrupted, *evicted)} & counted
    if not ended and not verdict.lost:
        return verdict
    ledger = (verdict.ledger or snapshot.status.ledger).without(_is_forgotten, now)
    slots = {
        (slot.task.name, slot.key): slot
        for slot in snapshot.slots
        if slot.name in ended or slot.replica in verdict.lost
    }
    records = {key: _once_more(ledger.record(*key), now) for key in slots}
    noted = replace(verdict, ledger=ledger.with_records(records))
    waits = ((slots[key], _ignored_pause(record)) for key, record in records.items())
    slot, pause = next(((slot, pause) for slot, pause in waits if pause > 0), (None, 0.0))
    if slot is None or verdict.message is None or not verdict.reschedules:
        return noted
    again = f"{slot.replica_name} is created again after {pause:.0f} s"
    return replace(noted, message=f"{verdict.message}; {again}")


def follows_losses(snapshot: Snapshot, slot: Slot, now: datetime) -> bool:
    """Return whether a replica was lost within the last ten minutes without a counted failure."""
    last = snapshot.status.ledger.record(slot.task.name, slot.key).last_ignored
    return last is not None and (now - last).total_seconds() < FORGOTTEN


def _is_forgotten(record: ReplicaRecord, now: datetime) -> bool:
    """Return whether a record has only losses that are too old to count."""
    last = record.last_ignored
    if last is None or (now - last).total_seconds() < FORGOTTEN:
        return False
    return replace(record, ignored_since=None, last_ignored=None) == ReplicaRecord()


def ignored_failures(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods whose program failed and whose failure a rule ignores."""
    disrupted, phase = {pod.uid for pod in snapshot.disrupted}, snapshot.status.phase
    return [
        pod
        for pod in pods
        if pod.uid in disrupted and pod.answer(Part.TASK, phase) is not Then.RESCHEDULE
    ]


def _once_more(record: ReplicaRecord, now: datetime) -> ReplicaRecord:
    last = record.last_ignored
    follows = last is not None and (now - last).total_seconds() < FORGOTTEN
    since = record.ignored_since if follows else None
    # Times are written in whole seconds: a second loss in the same second still counts as later.
    last = now if since is None else max(now, since + timedelta(seconds=1))
    return replace(record, ignored_since=since or now, last_ignored=last)


def _ignored_pause(record: ReplicaRecord) -> float:
    since, last = record.ignored_since, record.last_ignored
    if since is None or last is None or last <= since:
        return 0.0
    # The time since the first loss is the next delay, which therefore doubles.
    return min(LONGEST, max(FIRST, (last - since).total_seconds()))


def _left(pause: float, since: datetime | None, now: datetime) -> float:
    # A clock that was set back must not extend the delay.
    return pause - max(0.0, (now - since).total_seconds()) if since is not None else 0.0
