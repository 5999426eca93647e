"""Capacity of released gangs, whose pods the cluster's scheduler binds one by one. Pure.

No pod of a gang is created before all of it fits. From its first pod on the policy does not decide
on it: the scheduler chooses its nodes. Bound pods occupy capacity as any pod does. For the other
pods capacity is reserved until all are bound: pods that wait to be bound, are about to be replaced
or wait for another task (`dependsOn`). Whether a gang was released is derived from the cluster, so
another leader knows it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.observe.own_pods import OwnPods
from di_operator.lifecycle.observed.status import Status

Nodes = Mapping[str, NodeInfo]
Kept = dict[str, dict[str, int]]
"""By node: the reserved amount of each resource."""


def was_let_go(status: Status, own: OwnPods) -> bool:
    """Return whether a gang has pods, or had all of them. A gang that lost its first pods while it
    still waited is decided on again.
    """
    return bool(own.present) or not status.is_waiting


def rest_of(job: JobInfo, status: Status, own: OwnPods) -> JobInfo:
    """Return the replicas of a gang that are not bound, and have not succeeded either."""
    succeeded = status.succeeded
    missing = (
        (task, task.replicas - own.bound(task.name) - succeeded.get(task.name, 0))
        for task in job.tasks
    )
    return replace(
        job, tasks=tuple(replace(task, replicas=count) for task, count in missing if count > 0)
    )


def keep_room(
    rests: Mapping[str, JobInfo], held: Iterable[tuple[JobInfo, NodeList]], nodes: Nodes
) -> Kept:
    """Return the capacity to reserve on nodes for the rests of gangs, by priority, then age.

    It is beside what the allocator's jobs hold, as long as there is enough. Otherwise jobs that
    can be moved give way: a gang that is bound in part does not run and holds much.

    Args:
        rests: by key.
        held: the allocator's jobs, and their nodes.
        nodes: their free capacity is beside all other pods.
    """
    movable, free = FreeCapacity(nodes), FreeCapacity(nodes)
    for job, placed in held:
        free.book(job, placed)
        if not job.preemptible:
            movable.book(job, placed)
    kept: Kept = {}
    for job in in_order(rests):
        for task in job.tasks:
            for row, count in _tightly(task, free, movable):
                known = kept.setdefault(free.nodes[row].name, {})
                for name, amount in task.resources.items():
                    known[name] = known.get(name, 0) + count * amount
    return kept


def without(nodes: Nodes, kept: Kept) -> dict[str, NodeInfo]:
    """Return the nodes with so much less free capacity, not below zero."""
    return {name: _less(node, kept[name]) if name in kept else node for name, node in nodes.items()}


def _tightly(
    task: TaskInfo, free: FreeCapacity, movable: FreeCapacity
) -> Iterator[tuple[int, int]]:
    """Take capacity for the replicas of a task where little is left; yields rows, and how many
    there.

    Free capacity comes first, then the capacity that is free if all movable jobs give way. There
    may be less than is asked for.
    """
    left = task.replicas
    for capacity in (free, movable):
        for slots, row in sorted((slots, row) for row, slots in enumerate(capacity.slots(task))):
            if count := min(slots, left):
                free.take(task, row, count)
                movable.take(task, row, count)
                left -= count
                yield row, count


def _less(node: NodeInfo, amounts: Mapping[str, int]) -> NodeInfo:
    free = {name: max(0, amount - amounts.get(name, 0)) for name, amount in node.free.items()}
    return replace(node, free=free)
