"""Puts replicas of several pods behind their task's Service once all of their pods are ready.

A Service checks the readiness of each pod alone, and would send requests to a leader whose other
pods are not ready. So the pods have the label that the Service selects only while the whole
replica is ready.
"""

from __future__ import annotations

from di_api.names import LABEL_IN_SERVICE, MARKED
from di_operator.builders.task_service import is_behind
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policies.drain import has_left, is_listed, relabelled
from di_operator.lifecycle.vocabulary.actions import Reclaim


def listings(snapshot: Snapshot) -> tuple[Reclaim, ...]:
    """Return the patches that put such replicas behind their Service or remove them from it."""
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
        # A pod that was removed from the Service for a drain is restored first.
        if (pod := live.get(slot.name)) is not None and not has_left(pod.raw["metadata"])
        if is_listed(pod) == (slot.replica in broken)
    )
