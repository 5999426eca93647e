"""Failures in a process group of fixed size that follow from the loss of another member.

The members of such a group notice within seconds that one is gone, and fail. The first event
decides: their failures count if one of them failed before the first loss. The API server may show
a failure before the loss that caused it, because kubelets report both, so failures wait briefly
for a loss.
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
"""Seconds from a failure until the loss that caused it is visible: a kubelet reports an eviction
when the containers have ended and its next sync is done.
"""
CLOCKS_DIFFER: Final = 2.0
"""Maximum clock difference, in seconds, between two kubelets and the API server, rounding
included: a failure within this time of a loss counts as its consequence.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The failed pods that are not counted as failures of their own."""

    pods: frozenset[str] = frozenset()
    """UIDs of the pods."""
    left: float | None = None
    """Seconds until some of them count unless a loss becomes visible; None if they never do."""


def following(
    snapshot: Snapshot, lost: Iterable[Pod], gone: Iterable[Slot], now: datetime
) -> Following:
    """Return the failed pods whose group lost, or may have lost, a member before they failed.

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
    """Return the slots of each group with a pod among these names: a whole task, or a replica of
    several pods.
    """
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
    """Return whether a pod failed before the first loss; an unknown time counts as early."""
    ended = ended_at(pod)
    return ended is not None and all(
        loss is not None and (loss - ended).total_seconds() > CLOCKS_DIFFER for loss in losses
    )


def _has_others(slots: Iterable[Slot], held: Mapping[str, Pod], failed: list[Pod]) -> bool:
    """Return whether a member may have been lost whose end is not visible yet."""
    names = {pod.name for pod in failed}
    others = [held.get(slot.name) for slot in slots if slot.name not in names]
    return any(pod is None or not pod.is_finished for pod in others)


def _time_left(failed: Iterable[Pod], now: datetime) -> float:
    """Return the seconds until the last failure is counted. 0 for one without a time, or with a
    clock too far ahead of the API server's.
    """
    ages = [(now - ended).total_seconds() for pod in failed if (ended := ended_at(pod)) is not None]
    return max((SHOWN_WITHIN - age for age in ages if age >= -SHOWN_WITHIN), default=0.0)
