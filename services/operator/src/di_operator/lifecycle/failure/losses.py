"""The pods whose end is already counted, as ``status.failures`` records them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from di_operator.lifecycle.observed.pods import Pod, loss_record
from di_operator.lifecycle.observed.snapshot import Snapshot

MAX_LOSSES = 1024
"""Maximum number of entries in ``status.failures`` by the CRD."""

MAX_GONE = 64
"""Counted pods that stay recorded after they are gone, because a stale snapshot may still show
them.
"""


def countable(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods whose end is not counted yet, as many as ``status.failures`` can still hold.

    Counted pods that still exist keep their entries; the others are counted once these are
    deleted.
    """
    counted = snapshot.status.counted
    room = max(0, MAX_LOSSES - len(counted & _present(snapshot)))
    return list(islice((pod for pod in pods if pod.uid not in counted), room))


def is_counting(snapshot: Snapshot) -> bool:
    """Return whether more pods ended at one time than ``status.failures`` can hold.

    Those that are counted now then belong to the same incident, and cause no further restart.
    """
    return snapshot.status.is_replacing and len(snapshot.status.losses) >= MAX_LOSSES


def remembered(
    snapshot: Snapshot, counted: Iterable[Pod], now: datetime
) -> list[Mapping[str, Any]]:
    """Return ``status.failures`` with the pods that are counted now.

    Of the entries for pods that are gone, the oldest are dropped.
    """
    known = snapshot.status.counted
    added = [loss_record(pod, now) for pod in counted if pod.uid not in known]
    losses = [*snapshot.status.losses, *added]
    present = _present(snapshot)
    gone = [loss["uid"] for loss in losses if loss["uid"] not in present]
    room = min(MAX_GONE, max(0, MAX_LOSSES - (len(losses) - len(gone))))
    forgotten = set(gone[: max(0, len(gone) - room)])
    return [loss for loss in losses if loss["uid"] not in forgotten][:MAX_LOSSES]


def _present(snapshot: Snapshot) -> set[str]:
    return {pod.uid for pod in snapshot.pods}
