"""How long a replica that fails again and again waits for its next pod, as the kubelet does it.

For tasks with a limit of their own: others come to an end by their job's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.ledger import ReplicaRecord
from di_operator.lifecycle.snapshot import Slot, Snapshot

FIRST: Final = 10.0
"""Seconds before the second restart; the first is at once. Then twice as long each time."""
LONGEST: Final = 300.0


def pause_of(record: ReplicaRecord) -> float:
    """Seconds between the last failure of a replica and its next pod."""
    again = record.restarts - 2
    return 0.0 if again < 0 else min(LONGEST, FIRST * 2.0 ** min(again, 10))


def pause_left(snapshot: Snapshot, slot: Slot, now: datetime) -> float:
    """Seconds for which a slot may not be filled yet; 0 or less if it may."""
    if slot.task.backoff_limit is None:
        return 0.0
    record = snapshot.status.ledger.record(slot.task.name, slot.key)
    if record.last_failure is None:
        return 0.0
    # A clock that was set back must not stretch the pause.
    passed = max(0.0, (now - record.last_failure).total_seconds())
    return pause_of(record) - passed
