"""How long a replica that fails again and again waits for its next pod, as the kubelet does it.

Where nothing else ends a job that always fails: in tasks with a limit of their own, by the count of
the replica, and after failures that a rule ignores, or when one of an elastic tier is lost. Those
move no counter, so there it is the time for which they have followed each other.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.ledger import ReplicaRecord
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.vocabulary.rules import Part, Then

FIRST: Final = 10.0
"""Seconds before the second restart; the first is at once. Then twice as long each time."""
LONGEST: Final = 300.0
FORGOTTEN: Final = 2 * LONGEST
"""Seconds between two ignored failures after which the later one is a first one again."""


def pause_of(record: ReplicaRecord) -> float:
    """Seconds between the last counted failure of a replica and its next pod."""
    again = record.restarts - 2
    return 0.0 if again < 0 else min(LONGEST, FIRST * 2.0 ** min(again, 10))


def pause_left(snapshot: Snapshot, slot: Slot, now: datetime) -> float:
    """Seconds for which a slot may not be filled yet; 0 or less if it may."""
    record = snapshot.status.ledger.record(slot.task.name, slot.key)
    counts = slot.task.backoff_limit is not None
    return max(
        _left(pause_of(record) if counts else 0.0, record.last_failure, now),
        _left(_ignored_pause(record), record.last_ignored, now),
    )


def note_ignored(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Remember when pods failed whose failures a rule ignores, of those that a verdict counts.

    Not of pods that the cluster has ended: that says nothing about their program. But of those of
    elastic tiers, which would be made anew as fast as they are taken.
    """
    counted = {pod.name for pod in verdict.counted}
    crashed = {
        pod.name
        for pod in snapshot.disrupted
        if pod.name in counted
        and pod.answer(Part.TASK, snapshot.status.phase) is not Then.RESCHEDULE
    }
    if not crashed and not verdict.lost:
        return verdict
    ledger = verdict.ledger or snapshot.status.ledger
    keys = {
        (slot.task.name, slot.key)
        for slot in snapshot.slots
        if slot.name in crashed or slot.replica in verdict.lost
    }
    records = {key: _once_more(ledger.record(*key), now) for key in keys}
    return replace(verdict, ledger=ledger.with_records(records))


def _once_more(record: ReplicaRecord, now: datetime) -> ReplicaRecord:
    last = record.last_ignored
    follows = last is not None and (now - last).total_seconds() < FORGOTTEN
    since = record.ignored_since if follows else None
    return replace(record, ignored_since=since or now, last_ignored=now)


def _ignored_pause(record: ReplicaRecord) -> float:
    since, last = record.ignored_since, record.last_ignored
    if since is None or last is None or last <= since:
        return 0.0
    # As long again as they have followed each other so far: that doubles each time.
    return min(LONGEST, max(FIRST, (last - since).total_seconds()))


def _left(pause: float, since: datetime | None, now: datetime) -> float:
    # A clock that was set back must not stretch the pause.
    return pause - max(0.0, (now - since).total_seconds()) if since is not None else 0.0
