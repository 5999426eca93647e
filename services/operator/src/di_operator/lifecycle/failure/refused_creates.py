"""The delay before a refused create is retried."""

from __future__ import annotations

from datetime import datetime

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.vocabulary.rules import WAITING

SHORTEST = 2.0
LONGEST = 60.0
"""Bounds of the delay in seconds."""


def pause(waited: float) -> float:
    """Return the next delay: the time that the job has waited so far, within the bounds."""
    return min(LONGEST, max(SHORTEST, waited))


def until_retry(snapshot: Snapshot, now: datetime) -> float:
    """Return the seconds for which a refused job must not create anything, 0 if it may.

    The status has both times: when the job began to wait and when it was last refused.
    """
    status = snapshot.status
    if not status.is_waiting or status.reason not in WAITING:
        return 0.0
    if status.transitioned is None or status.updated is None:
        return 0.0
    wait = pause((status.updated - status.transitioned).total_seconds())
    passed = (now - status.updated).total_seconds()
    # A clock that was set back must not extend the delay.
    return wait - passed if 0 <= passed < wait else 0.0
