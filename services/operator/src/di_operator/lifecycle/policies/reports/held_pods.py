"""Reports pods that were deleted and do not end, with the time and the cause.

While such a pod may still run, no other pod can have its name or its rank. So the job waits, and
only the owner of the cause (a finalizer, for example) can resolve it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from di_api.timestamps import format_time
from di_operator.lifecycle.observed.plan import NODE_LOST_PATIENCE
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of, earliest
from di_operator.lifecycle.policy import NOTHING, Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem

PATIENCE: Final = NODE_LOST_PATIENCE
"""Seconds past its grace period before a pod that does not end is reported: the time after which
one on a lost node is deleted without its kubelet.
"""
_MOST: Final = 8
"""Maximum number of finalizers in the message."""
_SOLVED: Final = Aside(
    type=Problem.POD_NOT_ENDING,
    value=False,
    reason="PodsEnded",
    message="no pod that was deleted is late to end",
)


def report_held(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition PodNotEnding; nothing for a job that ends: no later decision would
    remove it.
    """
    if verdict.phase.is_finished:
        return NOTHING
    late = [pod for pod, left in _ending(snapshot, now) if left <= 0]
    return Report(conditions=(_condition(late) if late else _SOLVED,))


def held_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the next pod is late; None if no pod is about to be."""
    return earliest(*(left for _, left in _ending(snapshot, now) if left > 0))


def _ending(snapshot: Snapshot, now: datetime) -> Iterator[tuple[Pod, float]]:
    """Yield the pods that are being deleted, each with the seconds until it is late."""
    names = {slot.name for slot in snapshot.slots} if snapshot.predecessors else frozenset[str]()
    # A pod of an earlier job matters only if this job needs its name.
    in_the_way = (pod for pod in snapshot.predecessors if pod.name in names)
    for pod in (*snapshot.pods, *in_the_way):
        # A pod on a lost node is deleted by force at that time.
        if pod.deleted_at is not None and not pod.node_is_lost:
            yield pod, PATIENCE - (now - pod.deleted_at).total_seconds()


def _condition(late: Iterable[Pod]) -> Aside:
    pods = sorted(late, key=lambda pod: (pod.deleted_at, pod.name))
    first = pods[0]
    reason, holder = _holder(first)
    message = (
        f"{count_of(len(pods), 'pod')} not ending, {first.name} first: being deleted since "
        f"{_since(first)}, {holder}"
    )
    return Aside(type=Problem.POD_NOT_ENDING, value=True, reason=reason, message=message)


def _holder(pod: Pod) -> tuple[str, str]:
    """Return what holds a pod, as a key and as text."""
    if pod.phase == "Running" and not pod.has_ended:
        return "Kubelet", f"a container runs on, and the kubelet of node {pod.node} does not end it"
    if finalizers := pod.raw["metadata"].get("finalizers") or ():
        noun = "finalizer" if len(finalizers) == 1 else "finalizers"
        return "Finalizer", f"held by {noun} {', '.join(map(str, finalizers[:_MOST]))}"
    return "Node", f"no container runs, and node {pod.node} does not release its volumes or network"


def _since(pod: Pod) -> str:
    """Return when a pod was deleted; the deletionTimestamp is the end of the grace period."""
    grace = pod.raw["metadata"].get("deletionGracePeriodSeconds")
    seconds = grace if isinstance(grace, int) and grace > 0 else 0
    assert pod.deleted_at is not None, "it is being deleted"
    return format_time(pod.deleted_at - timedelta(seconds=seconds))


HELD_PODS: Final = Policy(report=report_held, due=held_time_left)
