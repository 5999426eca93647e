"""The next steps from the existing objects of a job to those that its spec requests."""

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
"""Seconds past a pod's grace period after which a pod on a lost node is deleted without its
kubelet.
"""

NEXT_READ = 2.0
"""Seconds until objects of an earlier job are read again: the garbage collector deletes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next steps, and what they leave undone."""

    removals: tuple[Delete | Reclaim, ...]
    """Deletes, and patches of pods that are about to go or will stay after all."""
    creations: tuple[Creation, ...]
    created: int
    """Number of pods among the creations."""
    removed: int
    """Pods of this job that the removals delete."""
    waiting: str | None
    """Why some replica still has no pod after the creations; None if all have one."""
    obstacle: str | None = None
    """Why no pod can be created until the spec is changed; None if one can."""
    restores_lists: bool = False
    """Whether the ConfigMap of node lists was deleted or edited and is written again."""
    lacks_template: bool = False
    """Whether a replica cannot be created because the AggregatorConfig is missing."""
    pause: float
    """Seconds for which creation is suspended, and the plan creates nothing; 0 or less if it is
    not.
    """
    events: tuple[JobEvent, ...] = ()
    """Events in addition to those that the steps cause."""
    requeue_after: float | None


def without_creations(plan: Plan, why: str) -> Plan:
    """Return the plan without its creations, to be retried soon with that reason for waiting."""
    requeue = earliest(plan.requeue_after, NEXT_READ)
    return replace(plan, creations=(), created=0, waiting=why, requeue_after=requeue)


def outdated_pods(snapshot: Snapshot) -> tuple[list[Pod], frozenset[str]]:
    """Return the outdated pods to delete, and the names of pods that wait until these are gone.

    No pod of a task, or of a replica with several pods, is created before the last outdated one is
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
    """Return the tasks of which a pod that was scaled away predates their last restart as
    a whole.
    """
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
    """Return the pods that only their lost node could end, and the seconds until the next is due.

    The kubelet of a lost node cannot confirm the end of a pod, and the pod's name would stay
    taken. If the node returns, its kubelet ends the pod because the API has none any more.
    """
    stuck = [
        (pod, NODE_LOST_PATIENCE - (now - pod.deleted_at).total_seconds())
        for pod in (*snapshot.outdated, *snapshot.failed, *snapshot.terminating, *snapshot.leaving)
        if pod.node_is_lost and pod.deleted_at is not None
    ]
    overdue = [pod for pod, left in stuck if left <= 0]
    return overdue, earliest(*(left for _, left in stuck if left > 0))
