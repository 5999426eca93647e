"""The next steps from the objects of a job to those its spec asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from di_api.spec import tasks_by_pod
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot, is_before_task
from di_operator.lifecycle.observed.status import ReplicaKey
from di_operator.lifecycle.observed.verdict import earliest
from di_operator.lifecycle.vocabulary.actions import Creation, Delete, Reclaim
from di_operator.lifecycle.vocabulary.decision import JobEvent

NODE_LOST_PATIENCE = 30.0
"""Seconds past a pod's grace period before a pod on a lost node is deleted without its kubelet."""

NEXT_LOOK = 2.0
"""Seconds until objects of an earlier job are read again; the garbage collector has to come by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next steps, and how far they reach."""

    removals: tuple[Delete | Reclaim, ...]
    """Deletes, and what is written to those that are to go, or stay after all."""
    creations: tuple[Creation, ...]
    created: int
    """Pods among the creations."""
    removed: int
    """Pods of this job that the removals delete."""
    waiting: str | None
    """Why some replica will have no pod after the creations; None if all will have one."""
    obstacle: str | None = None
    """Why no pod can be made until the spec is changed; None if nothing is in the way."""
    restores_lists: bool = False
    """Whether somebody deleted or edited the file of the node lists, and it is written anew."""
    lacks_template: bool = False
    """Whether a replica cannot be made since there is no AggregatorConfig."""
    pause: float
    """Seconds for which nothing may be created, and nothing is; 0 or less if it may."""
    events: tuple[JobEvent, ...] = ()
    """What is told beside what the steps themselves say."""
    requeue_after: float | None


def without_creations(plan: Plan, why: str) -> Plan:
    """The plan of a job for which nothing can be made yet, soon to be made again."""
    requeue = earliest(plan.requeue_after, NEXT_LOOK)
    return replace(plan, creations=(), created=0, waiting=why, requeue_after=requeue)


def outdated_pods(snapshot: Snapshot) -> tuple[list[Pod], frozenset[str]]:
    """Return the outdated pods to be deleted, and the names of those that wait for them to be gone.

    No pod of a task, or of a replica of several, is made before the last outdated one of it is
    gone: a new member of a group must not meet an old one.
    """
    tasks, replicas = _tasks_left(snapshot), set[ReplicaKey]()
    if not snapshot.outdated and not tasks:
        return [], frozenset()
    outdated, status = {pod.name: pod for pod in snapshot.outdated}, snapshot.status
    for slot in snapshot.slots:
        if (pod := outdated.get(slot.name)) is not None:
            if is_before_task(pod, slot, status):
                tasks.add(slot.task.name)
            else:
                replicas.add(slot.replica)
    waiting = frozenset(
        slot.name
        for slot in snapshot.missing
        if slot.task.name in tasks or slot.replica in replicas
    )
    return [pod for pod in snapshot.outdated if not pod.terminating], waiting


def _tasks_left(snapshot: Snapshot) -> set[str]:
    """Tasks of which a pod that was scaled away was made before their last restart as a whole."""
    attempts, others = snapshot.status.restart_attempts, (*snapshot.surplus, *snapshot.leaving)
    if not attempts or not others:
        return set()
    task_of = tasks_by_pod(snapshot.name, snapshot.tasks)
    return {
        task
        for pod in others
        if (task := task_of(pod.name)) in attempts
        and pod.attempt is not None
        and pod.attempt < attempts[task]
    }


def lost_nodes(snapshot: Snapshot, now: datetime) -> tuple[list[Pod], float | None]:
    """Return pods that only their lost node could end, and when the next one's time is up.

    The kubelet of a lost node cannot confirm the end of a pod, and its name would stay taken.
    Should the node come back, its kubelet ends the pod it still runs, for the API has none.
    """
    stuck = [
        (pod, NODE_LOST_PATIENCE - (now - pod.deleted_at).total_seconds())
        for pod in (*snapshot.outdated, *snapshot.failed, *snapshot.terminating, *snapshot.leaving)
        if pod.node_is_lost and pod.deleted_at is not None
    ]
    overdue = [pod for pod, left in stuck if left <= 0]
    return overdue, earliest(*(left for _, left in stuck if left > 0))
