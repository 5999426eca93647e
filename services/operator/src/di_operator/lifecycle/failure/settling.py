"""The wait for informers to show objects that were just created."""

from __future__ import annotations

from datetime import datetime

from di_api.phase import Phase
from di_operator.lifecycle.observed.snapshot import Snapshot

# Seconds for the watch to show what was just created; at least, and for each replica.
_SETTLE_MINIMUM = 2.0
_SETTLE_PER_REPLICA = 0.005


def settling(snapshot: Snapshot, now: datetime) -> float:
    """Return the seconds for which an object may be missing because it is not visible yet.

    Starting is written when all objects have been created, and its watch event may arrive before
    theirs. Without this wait such a pod would count as deleted.
    """
    since = snapshot.status.transitioned
    if snapshot.status.phase is not Phase.STARTING or since is None:
        return 0.0
    window = max(_SETTLE_MINIMUM, _SETTLE_PER_REPLICA * len(snapshot.slots))
    passed = (now - since).total_seconds()
    # A clock that was set back must not extend the wait.
    return window - passed if 0 <= passed < window else 0.0
