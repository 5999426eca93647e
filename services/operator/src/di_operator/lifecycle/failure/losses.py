"""Pods whose end is counted, each once: what ``status.failures`` remembers of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from di_operator.lifecycle.observed.pods import Pod, loss_record
from di_operator.lifecycle.observed.snapshot import Snapshot

MAX_LOSSES = 1024
"""Most entries the CRD allows in ``status.failures``."""

MAX_GONE = 64
"""Counted pods remembered after they are gone, for a snapshot that still shows them."""


def countable(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods whose end is not counted yet, as many as the status has room for.

    Counted pods that exist take room. Once they are deleted it is the turn of the others.
    """
    counted = snapshot.status.counted
    room = max(0, MAX_LOSSES - len(counted & _present(snapshot)))
    return list(islice((pod for pod in pods if pod.uid not in counted), room))


def is_counting(snapshot: Snapshot) -> bool:
    """Whether more pods ended at one time than the status has room for.

    Those that are counted now are then the rest of them, and no further restart.
    """
    return snapshot.status.is_replacing and len(snapshot.status.losses) >= MAX_LOSSES


def remembered(
    snapshot: Snapshot, counted: Iterable[Pod], now: datetime
) -> list[Mapping[str, Any]]:
    """Return ``status.failures`` with the pods that are counted now.

    The oldest of those that are long gone are forgotten.
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
