"""Removes replicas of a running job: first from the Service of their task, then by deletion.

A deleted pod gets new connections until the proxy of every node has removed it from its Service,
while its kubelet already requests it to drain. So a pod is removed from the Service first, by the
label that the Service selects, and deleted a moment later. The same write records the time on the
pod. A new leader continues from there, and a pod that is wanted again before its deletion is put
back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from di_api.names import (
    ANNOTATION_GRACE_SECONDS,
    ANNOTATION_LEFT_SERVICE,
    LABEL_IN_SERVICE,
    MARKED,
)
from di_api.spec import Task, tasks_by_pod
from di_api.timestamps import format_time
from di_kube.resources import PODS
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import earliest
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.actions import Reclaim
from di_operator.lifecycle.vocabulary.timestamps import parse_time

LEAVE_SECONDS: Final = 3.0
"""Seconds from the change of a pod's label to its deletion. The recorded time is cut to whole
seconds, so at least two remain for the proxies of all nodes, which by default write their rules
once a second (kube-proxy's `iptables.minSyncPeriod`).
"""
_LOOK: Final = 1.0
"""Seconds until the next reconcile if pods that are due still exist."""
_SECONDS: Final = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """The next steps for pods that are to be removed."""

    due: tuple[Pod, ...]
    """Pods to delete now."""
    marks: tuple[Reclaim, ...] = ()
    """Patches that remove other pods from their Service."""
    requeue_after: float | None = None


def departures(snapshot: Snapshot, pods: Iterable[Pod], now: datetime) -> Departures:
    """Return the next step for each pod of a job that is to be removed and is not deleted yet.

    If only the leaders of replicas are behind a Service, the other pods of a replica follow once
    its leader is gone.
    """
    going, drained = tuple(pods), _drained_tasks(snapshot)
    if not drained:
        return Departures(due=going)
    task_of = tasks_by_pod(snapshot.name, snapshot.tasks)
    ending = (*going, *(pod for pod in snapshot.pods if pod.terminating))
    unfinished = frozenset(pod.name for pod in ending if not pod.has_ended)
    due: list[Pod] = []
    marks: list[Reclaim] = []
    waits: list[float] = []
    for pod in going:
        task = drained.get(task_of(pod.name))
        left = _seconds_left(pod, now)
        if task is None or pod.phase != "Running" or pod.has_ended:
            due.append(pod)
        elif is_listed(pod) or (left is not None and left > LEAVE_SECONDS):
            marks.append(_mark(pod, {LABEL_IN_SERVICE: None}, format_time(now)))
            waits.append(LEAVE_SECONDS)
        elif left is not None and left > 0:
            waits.append(left)
        elif not _is_led(pod, task, unfinished):
            due.append(pod)
    return Departures(due=tuple(due), marks=tuple(marks), requeue_after=earliest(*waits))


def returns(snapshot: Snapshot, going: Iterable[Pod]) -> tuple[Reclaim, ...]:
    """Return the patches that put pods back into their Service because they are wanted again.

    `going` are the pods that are to be removed, some of which have a slot: their quota was evicted.
    """
    if not _drained_tasks(snapshot):
        return ()
    left = {pod.name: pod for pod in snapshot.live if _left_at(pod) is not None}
    for pod in going:
        left.pop(pod.name, None)
    return tuple(
        _mark(left[slot.name], _service_label(slot.labels), None)
        for slot in snapshot.slots
        if slot.name in left
    )


def departure_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the next pod outside its Service is deleted, None without one."""
    if not _drained_tasks(snapshot):
        return None
    waiting = (pod for pod in snapshot.pods if not (pod.terminating or pod.is_finished))
    left = (_seconds_left(pod, now) for pod in waiting)
    return earliest(*(max(seconds, _LOOK) for seconds in left if seconds is not None))


def has_left(metadata: Mapping[str, object]) -> bool:
    """Return whether the metadata shows that the pod was removed from its Service."""
    annotations = metadata.get("annotations")
    return isinstance(annotations, Mapping) and ANNOTATION_LEFT_SERVICE in annotations


def is_listed(pod: Pod) -> bool:
    """Return whether a pod, once ready, is behind the Service of its task."""
    return bool((pod.raw["metadata"].get("labels") or {}).get(LABEL_IN_SERVICE) == MARKED)


def relabelled(
    pod: Pod, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
) -> Reclaim:
    """Return the patch of a pod's labels and annotations; None as a value removes one."""
    return Reclaim(
        resource=PODS,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        labels=labels,
        annotations=annotations,
    )


def own_grace(pod: Pod) -> int | None:
    """Return the grace period in a pod's template if it is longer than the one for a drain."""
    text = (pod.raw["metadata"].get("annotations") or {}).get(ANNOTATION_GRACE_SECONDS)
    # Zero would delete it without its kubelet.
    return max(1, int(text)) if isinstance(text, str) and _SECONDS.fullmatch(text) else None


def _drained_tasks(snapshot: Snapshot) -> Mapping[str, Task]:
    return {task.name: task for task in snapshot.tasks if task.drain is not None}


def _is_led(pod: Pod, task: Task, ending: Set[str]) -> bool:
    """Return whether a pod has a leader that is ending and drains in its place."""
    leader = f"{pod.name.rpartition('-')[0]}-0"
    return task.has_pod_groups and task.drains_leaders and leader != pod.name and leader in ending


def _left_at(pod: Pod) -> str | None:
    found = (pod.raw["metadata"].get("annotations") or {}).get(ANNOTATION_LEFT_SERVICE)
    return found if isinstance(found, str) else None


def _seconds_left(pod: Pod, now: datetime) -> float | None:
    since = parse_time(_left_at(pod))
    return None if since is None else LEAVE_SECONDS - (now - since).total_seconds()


def _service_label(labels: Mapping[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in labels.items() if key == LABEL_IN_SERVICE}


def _mark(pod: Pod, labels: Mapping[str, str | None], since: str | None) -> Reclaim:
    return relabelled(pod, labels, {ANNOTATION_LEFT_SERVICE: since})


DRAIN: Final = Policy(due=departure_time_left)
