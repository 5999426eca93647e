"""Replicas of several pods behind their task's Service: once all pods of a replica are ready.

A Service looks at each pod alone. A leader whose others are not ready, or not any more, would be
sent requests that it cannot answer. So its pods carry the label that the Service selects for as
long as the replica is ready as a whole.
"""

from __future__ import annotations

from di_api.names import LABEL_IN_SERVICE, MARKED
from di_operator.builders.task_service import is_behind
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policies.drain import has_left, is_listed, relabelled
from di_operator.lifecycle.vocabulary.actions import Reclaim


def listings(snapshot: Snapshot) -> tuple[Reclaim, ...]:
    """What puts such replicas behind their Service, or takes them out; nothing for other pods."""
    slots = [slot for slot in snapshot.slots if slot.task.has_pod_groups and slot.task.service]
    if not slots:
        return ()
    ready = {pod.name for pod in snapshot.ready}
    live = {pod.name: pod for pod in snapshot.live}
    broken = {slot.replica for slot in slots if slot.name not in ready}
    return tuple(
        relabelled(pod, {LABEL_IN_SERVICE: None if is_listed(pod) else MARKED}, {})
        for slot in slots
        if is_behind(slot.task, slot.index)
        # One that left it because it was to go is put right first.
        if (pod := live.get(slot.name)) is not None and not has_left(pod.raw["metadata"])
        if is_listed(pod) == (slot.replica in broken)
    )
