"""Failures in a process group that takes no member back: which follow from the loss of another.

The members of such a group notice within seconds that one is gone, and fail. What came first
decides: their failures count if one of them failed before the first loss. The API server may show
the failures before the loss, where a kubelet reports both, so they wait a moment for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.pods import Pod, deletion_requested_at, ended_at
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.status import ReplicaKey
from di_operator.lifecycle.observed.verdict import earliest

SHOWN_WITHIN: Final = 5.0
"""Seconds from a failure until the loss that caused it is shown: a kubelet reports an eviction when
the containers have ended and its next sync is done."""
CLOCKS_DIFFER: Final = 2.0
"""Seconds by which the times of two kubelets and the API server may differ, cut to whole seconds:
a failure within them after or before a loss is taken for its consequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Failed pods that are not judged for what they did."""

    pods: frozenset[str] = frozenset()
    """Their UIDs."""
    left: float | None = None
    """Seconds until some of them are judged, unless a loss is shown; None: they never are."""


def following(
    snapshot: Snapshot, lost: Iterable[Pod], gone: Iterable[Slot], now: datetime
) -> Following:
    """Return the failed pods whose group has lost a member before, or may have.

    Args:
        snapshot: of the job.
        lost: pods that were lost.
        gone: slots whose pods vanished.
        now: by the API server's clock.
    """
    counted = snapshot.status.counted
    failed = {pod.name: pod for pod in snapshot.failed if pod.uid not in counted}
    groups = _groups_of(snapshot, failed)
    if not groups:
        return Following()
    names = {
        pod.name: deletion_requested_at(pod) or ended_at(pod)
        for pod in lost
        if pod.uid not in counted
    }
    losses: dict[str, datetime | None] = {**names, **{slot.name: None for slot in gone}}
    found, waits = set[str](), list[float]()
    for slots in groups:
        those = [failed[slot.name] for slot in slots if slot.name in failed]
        times = [losses[slot.name] for slot in slots if slot.name in losses]
        if times:
            follow = not any(_is_before(pod, times) for pod in those)
        else:
            left = _time_left(those, now) if _has_others(slots, snapshot.held, those) else 0.0
            follow = left > 0
            waits.extend([left] if follow else [])
        found.update(pod.uid for pod in those if follow)
    return Following(pods=frozenset(found), left=earliest(*waits))


def _groups_of(snapshot: Snapshot, names: Collection[str]) -> list[list[Slot]]:
    """The slots of each group that pods of these names belong to: a whole task, or a replica of
    several pods."""
    if not names:
        return []
    fixed = snapshot.fixed_groups(names)
    groups: dict[ReplicaKey, list[Slot]] = {}
    for slot in snapshot.slots:
        if slot.task.name in fixed:
            groups.setdefault((slot.task.name, 0), []).append(slot)
        elif slot.task.has_pod_groups and slot.task.process_group is not None:
            groups.setdefault(slot.replica, []).append(slot)
    return [slots for slots in groups.values() if any(slot.name in names for slot in slots)]


def _is_before(pod: Pod, losses: Iterable[datetime | None]) -> bool:
    """Whether a pod failed before the first of the losses; a time that is unknown is early."""
    ended = ended_at(pod)
    return ended is not None and all(
        loss is not None and (loss - ended).total_seconds() > CLOCKS_DIFFER for loss in losses
    )


def _has_others(slots: Iterable[Slot], held: Mapping[str, Pod], failed: list[Pod]) -> bool:
    """Whether a member may have been lost that is not shown as ended yet."""
    names = {pod.name for pod in failed}
    others = [held.get(slot.name) for slot in slots if slot.name not in names]
    return any(pod is None or not pod.is_finished for pod in others)


def _time_left(failed: Iterable[Pod], now: datetime) -> float:
    """Seconds until the last of the failures is judged; 0 for one without a time, or whose clock
    is too far ahead of the API server's."""
    ages = [(now - ended).total_seconds() for pod in failed if (ended := ended_at(pod)) is not None]
    return max((SHOWN_WITHIN - age for age in ages if age >= -SHOWN_WITHIN), default=0.0)
