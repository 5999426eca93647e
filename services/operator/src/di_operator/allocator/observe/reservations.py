"""Free capacity for pods that wait, reserved before policies share the rest.

They belong to other owners, or to DIJobs that are not preemptible. The scheduler refuses them
because preemptible jobs have the capacity. If a waiting pod would fit without the jobs below its
priority, that much of a node is reserved. The policy shrinks, moves or stops these jobs, and the
scheduler binds the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import NodeInfo, read_constraints
from di_operator.allocator.model.resources import Resources, pod_request, total

MOST: Final = 64
"""Maximum number of pods with a reservation, those of the highest priority."""
PATIENCE: Final = timedelta(seconds=60)
"""How long capacity is reserved for a pod that would fit now: its scheduler can have reasons that
are not visible here.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod that the allocator does not place and for which its scheduler finds no node."""

    uid: str
    priority: int
    """Its Kubernetes priority."""
    urgency: int = 0
    """The `priority` of its DIJob, 1 for high: it decides between equal priorities. 0 for other
    pods.
    """
    task: TaskInfo
    """Its requests and constraints."""

    @property
    def rank(self) -> tuple[int, int]:
        """Return the order of waiting pods, which also decides from which jobs they take."""
        return self.priority, self.urgency

    @classmethod
    def read(cls, pod: Mapping[str, Any]) -> WaitingPod:
        """Read one. Raises AttributeError, KeyError, TypeError or ValueError for an invalid pod."""
        spec = pod["spec"]
        return cls(
            uid=pod["metadata"]["uid"],
            priority=int(spec.get("priority") or 0),
            task=TaskInfo(
                name="",
                replicas=1,
                minimum=1,
                maximum=1,
                resources=pod_request(spec),
                constraints=read_constraints(spec),
            ),
        )


UNTOUCHED: Final = 1 << 31
"""Above every priority that Kubernetes knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job that the allocator has given nodes."""

    priority: int
    """The Kubernetes priority of its pods; UNTOUCHED for a job that gives up nothing."""
    urgency: int = 0
    """The `priority` of the job, 1 for high."""
    job: JobInfo
    held: NodeList

    @property
    def rank(self) -> tuple[int, int]:
        """Return the rank that a pod has to exceed to take from the job."""
        return self.priority, self.urgency


def reserve(
    pods: Iterable[WaitingPod], nodes: Mapping[str, NodeInfo], holders: Iterable[Holder]
) -> dict[str, dict[str, int]]:
    """Return the capacity to reserve, by node.

    A pod gets its reservation where it takes least from jobs, and never from a job of its own
    priority or above. A pod that fits on no node without those gets none.

    Args:
        pods: the waiting pods.
        nodes: with what jobs can have in all.
        holders: the jobs that have some of it.
    """
    above, beside = FreeCapacity(nodes), FreeCapacity(nodes)
    left = sorted(holders, key=lambda holder: holder.rank, reverse=True)
    for holder in left:
        beside.book(holder.job, holder.held)
    kept: dict[str, dict[str, int]] = {}
    for pod in sorted(pods, key=lambda pod: (-pod.priority, -pod.urgency, pod.uid))[:MOST]:
        while left and left[0].rank >= pod.rank:
            above.book(left[0].job, left[0].held)
            del left[0]
        rows = [row for row, places in enumerate(above.slots(pod.task)) if places]
        if not rows:
            continue
        row = min(rows, key=lambda row: (_taken_from_jobs(pod, beside.free[row]), row))
        for capacity in (above, beside):
            capacity.take(pod.task, row)
        name = above.nodes[row].name
        kept[name] = total((kept.get(name, {}), pod.task.resources))
    return kept


class Reservations:
    """The waiting pods, and since when each of them could have been bound."""

    def __init__(self) -> None:
        self._waiting: dict[str, WaitingPod] = {}
        self._fitting: dict[str, datetime] = {}
        # By the UID of a job: its waiting pods.
        self._of_jobs: dict[str, frozenset[str]] = {}

    def put(self, pod: WaitingPod) -> None:
        """Store a waiting pod."""
        self._waiting[pod.uid] = pod

    def put_job(self, uid: str, pods: Iterable[WaitingPod]) -> None:
        """Replace the waiting pods of a job."""
        waiting = {pod.uid: pod for pod in pods}
        for gone in self._of_jobs.pop(uid, frozenset()) - waiting.keys():
            # Since when it could have been bound is kept: it may be put again before the next
            # round.
            self._waiting.pop(gone, None)
        if waiting:
            self._of_jobs[uid] = frozenset(waiting)
            self._waiting |= waiting

    def remove(self, uid: str) -> None:
        """Record that a pod does not wait any more."""
        self._waiting.pop(uid, None)
        self._fitting.pop(uid, None)

    def look(
        self,
        lasting: Mapping[str, NodeInfo],
        free: Mapping[str, NodeInfo],
        holders: Iterable[Holder],
        now: datetime,
    ) -> dict[str, dict[str, int]]:
        """Return the capacity to reserve now, by node; `free` is beside all pods."""
        self._fitting = {uid: at for uid, at in self._fitting.items() if uid in self._waiting}
        if not self._waiting:
            return {}
        room = FreeCapacity(free)
        for uid, pod in self._waiting.items():
            if any(room.slots(pod.task)):
                self._fitting.setdefault(uid, now)
            else:
                self._fitting.pop(uid, None)
        patient = (
            pod
            for uid, pod in self._waiting.items()
            if now - self._fitting.get(uid, now) < PATIENCE
        )
        return reserve(patient, lasting, holders)


def _taken_from_jobs(pod: WaitingPod, free: Resources) -> float:
    """Return the largest part of a pod's request that jobs have to give up for it."""
    return max(
        (
            min(1.0, max(0, amount - free.get(name, 0)) / amount)
            for name, amount in pod.task.resources.items()
            if amount
        ),
        default=0.0,
    )
