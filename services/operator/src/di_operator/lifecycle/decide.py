"""The one question of the operator: given this job and its objects, what is to be done now?"""

from __future__ import annotations

from datetime import datetime

from di_operator.lifecycle.decision import Decision, JobEvent, Settings
from di_operator.lifecycle.snapshot import Snapshot

__all__ = ["Decision", "JobEvent", "Settings", "decide"]


def decide(snapshot: Snapshot, now: datetime, settings: Settings) -> Decision:
    """Return the decision for the job; pure and total. ``now`` is timezone-aware UTC."""
    raise NotImplementedError
