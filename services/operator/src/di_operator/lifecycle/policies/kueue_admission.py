"""Jobs in a Kueue queue: the pods that the admitted quota allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from di_api.phase import Phase
from di_api.spec import Task, tasks_by_pod
from di_kube.resources import DIJOBS
from di_operator.kueue.multikueue import QUEUED, MultiKueueRole
from di_operator.kueue.portions import Portion
from di_operator.kueue.queueing import Queueing, resumed, suspended
from di_operator.lifecycle.observed.pods import Pod, task_of
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.deletion import delete_pod
from di_operator.lifecycle.policies.drain import departures
from di_operator.lifecycle.policy import NOTHING, Policy, Report
from di_operator.lifecycle.vocabulary.actions import Patch
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason

REASON_ADMITTED: Final = "Admitted"
_NONE: Final[Mapping[str, int]] = {}
T = TypeVar("T")


def judge_queue(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Let a job without admission wait; its existing pods end with their own grace period.

    The job's `suspend` is set too, so an older operator without support for queues starts nothing.
    """
    queueing = snapshot.queueing
    if queueing is None or not queueing.has_queue or queueing.is_held or snapshot.spec is None:
        return None
    if queueing.is_open:
        # A job that MultiKueue dispatched stays suspended in this cluster.
        if not queueing.by_queue or queueing.side is MultiKueueRole.MANAGER:
            return None
        message = "admitted, and is resumed"
        return Verdict(
            phase=Phase.PENDING,
            reason=Reason.JOB_QUEUED,
            message=None if _waits(snapshot) else message,
            actions=(_patch_job(snapshot, resumed()),),
        )
    marks = () if queueing.by_queue else (_patch_job(snapshot, suspended()),)
    own = [pod for pod in snapshot.pods if not pod.is_finished and not pod.terminating]
    old = [pod for pod in snapshot.predecessors if not pod.is_finished and not pod.terminating]
    leaving = departures(snapshot, own, now)
    evicted = f"evicted, {count_of(len(own), 'pod')} to end"
    return Verdict(
        phase=Phase.PENDING,
        reason=Reason.JOB_QUEUED,
        message=f"waiting to be admitted by queue {queueing.standing.queue}",
        actions=(*marks, *leaving.marks, *(delete_pod(pod) for pod in (*leaving.due, *old))),
        events=(JobEvent(reason=Reason.PODS_DELETED, message=evicted),) if leaving.due else (),
        requeue_after=leaving.requeue_after,
    )


def report_queue(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition Queued and the admitted replicas; nothing for jobs without a queue.

    A change of the admitted replicas is urgent: the allocator assigns by them.
    """
    queueing = snapshot.queueing
    admitted = _admitted(queueing)
    is_sized = snapshot.spec is not None and snapshot.spec.preemptible
    is_urgent = is_sized and admitted != snapshot.status.raw.get("admitted", {})
    if queueing is None:
        return Report(is_urgent=True) if is_urgent else NOTHING
    return Report(
        conditions=(_queued(queueing),),
        fields={"admitted": dict(admitted)} if admitted else {},
        is_urgent=is_urgent,
    )


def _queued(queueing: Queueing) -> Aside:
    if queueing.is_open or queueing.is_held:
        cluster = _cluster_queue(queueing)
        message = f"admitted by ClusterQueue {cluster}" if cluster else "does not wait in a queue"
        return Aside(type=QUEUED, value=False, reason=REASON_ADMITTED, message=message)
    words = queueing.words
    return Aside(
        type=QUEUED,
        value=True,
        reason=words.reason,
        message=f"queue {queueing.standing.queue}: {words.message}",
    )


def _admitted(queueing: Queueing | None) -> Mapping[str, int]:
    if queueing is None or queueing.obstacle is not None or not queueing.is_open:
        return {}
    return queueing.admitted if queueing.has_queue else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The pods that the quota of a job allows; all of them in jobs without a queue."""

    snapshot: Snapshot
    barred: frozenset[str]
    """Names of the slots whose replicas have no quota of their own."""
    evicted: tuple[Pod, ...]
    """Pods to delete because the quota of their replicas was evicted."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Quota:
        """Return the quota of the job in a snapshot."""
        barred = _barred(snapshot)
        return cls(snapshot=snapshot, barred=barred, evicted=_evicted(snapshot, barred))

    def fitting(self, slots: Iterable[Slot]) -> list[Slot]:
        """Return the slots whose pods fit into the admitted quota, beside pods that are still
        ending.
        """
        allowed = [slot for slot in slots if slot.name not in self.barred]
        return self._fitting(allowed, lambda slot: slot.task.name)

    def fitting_standbys(
        self, standbys: Iterable[tuple[Task, int]], slots: Iterable[Slot]
    ) -> tuple[tuple[Task, int], ...]:
        """Return the standby pods that fit too, beside the pods of these slots."""
        taken = Counter(slot.task.name for slot in slots)
        return tuple(self._fitting(standbys, lambda standby: standby[0].name, taken))

    def _fitting(
        self, wanted: Iterable[T], task_of: Callable[[T], str], taken: Mapping[str, int] = _NONE
    ) -> list[T]:
        queueing = self.snapshot.queueing
        if queueing is None or not queueing.has_queue or queueing.obstacle is not None:
            return [*wanted]
        room = {
            name: _admitted_room(self.snapshot, queueing, portion) - taken.get(name, 0)
            for portion in queueing.portions
            if (name := portion.task.name)
        }
        fitting: list[T] = []
        for each in wanted:
            if room.get(task_of(each), 0) > 0:
                room[task_of(each)] -= 1
                fitting.append(each)
        return fitting


def _barred(snapshot: Snapshot) -> frozenset[str]:
    queueing = snapshot.queueing
    if queueing is None or not queueing.has_queue or all(not p.extras for p in queueing.portions):
        return frozenset()
    replicas: dict[str, list[int]] = {}
    for slot in snapshot.slots:
        replicas.setdefault(slot.task.name, []).append(slot.replica[1])
    barred = queueing.barred(replicas)
    return frozenset(slot.name for slot in snapshot.slots if slot.replica in barred)


def _evicted(snapshot: Snapshot, barred: Set[str]) -> tuple[Pod, ...]:
    if not barred or snapshot.queueing is None or snapshot.queueing.obstacle is not None:
        return ()
    return tuple(pod for pod in snapshot.live if pod.name in barred)


def room_left(snapshot: Snapshot, queueing: Queueing, portion: Portion) -> int:
    """Return how many more pods of a task fit into the quota that the job holds.

    It can include quota that is to be released, so a new pod must not use it: see `_admitted_room`.
    """
    extras = queueing.extras_of(portion.task.name)
    holding = sum(each.state.holds_quota and each.holds for each in extras)
    return _room(snapshot, queueing, portion, extras=holding)


def _admitted_room(snapshot: Snapshot, queueing: Queueing, portion: Portion) -> int:
    """Return how many more pods of a task fit into the quota that Kueue leaves to the job.

    The same decision can release the quota of an evicted or deleted Workload.
    """
    extras = queueing.admitted_extras(portion.task.name)
    return _room(snapshot, queueing, portion, extras=extras)


def _room(snapshot: Snapshot, queueing: Queueing, portion: Portion, *, extras: int) -> int:
    held = queueing.core_pods(portion) + extras * portion.task.pods_per_replica
    live = _live(snapshot)
    return held - live[portion.task.name] - live[None]


def _live(snapshot: Snapshot) -> Counter[str | None]:
    """Return the number of pods of each task that use quota; None: of a task that is unknown.

    The label of a pod can be edited, its name cannot. The name of a replica that a coordinator
    requests does not contain its role.
    """
    using = [pod for pod in snapshot.pods if takes_room(pod)]
    if snapshot.spec is not None and snapshot.spec.coordinated is None:
        by_name = tasks_by_pod(snapshot.name, snapshot.tasks)
        return Counter(by_name(pod.name) for pod in using)
    return Counter(task_of(pod.raw) for pod in using)


def takes_room(pod: Pod) -> bool:
    """Return whether a pod uses quota: it does until its containers have ended for good."""
    return not pod.is_finished


def _waits(snapshot: Snapshot) -> bool:
    present = snapshot.status
    return present.phase is Phase.PENDING and present.reason == Reason.JOB_QUEUED


def _cluster_queue(queueing: Queueing) -> str:
    if queueing.core is None or not queueing.is_admitted:
        return ""
    status = queueing.core.raw.get("status") or {}
    return str((status.get("admission") or {}).get("clusterQueue") or "")


def _patch_job(snapshot: Snapshot, patch: Mapping[str, Any]) -> Patch:
    return Patch(
        resource=DIJOBS,
        namespace=snapshot.namespace,
        name=snapshot.name,
        uid=snapshot.uid,
        resource_version=snapshot.job["metadata"]["resourceVersion"],
        patch=patch,
    )


QUEUE: Final = Policy(judge=judge_queue, report=report_queue)
