"""The room of gangs that were let go: the cluster's scheduler binds their pods one by one. Pure.

Nothing of a gang is made before there is room for all of it. From its first pod on it is not the
policy's to decide on any more: where its pods come to be bound is the scheduler's choice. What is
bound takes room as any pod does. For the rest, whether its pods wait to be bound, are about to be
replaced or wait for another task (`dependsOn`), room is kept until all of it is bound. Which gangs
were let go is read off the cluster, so another leader knows it as well.
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
"""By node: what is kept of each resource."""


def was_let_go(status: Status, own: OwnPods) -> bool:
    """Whether a gang has pods, or had all of them; one that lost the first ones it had while it
    still waited asks again."""
    return bool(own.present) or not status.is_waiting


def rest_of(job: JobInfo, status: Status, own: OwnPods) -> JobInfo:
    """The replicas of a gang that are not bound, and have not succeeded either."""
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
    """Return what is to be kept on which nodes for the rests of gangs, by priority, then age.

    It is kept beside what the jobs hold that the allocator looks after, as long as there is so
    much. Else those give way that can be moved: a gang that is bound in part runs nothing and
    holds much.

    Args:
        rests: by key.
        held: jobs that the allocator looks after, and their nodes.
        nodes: free beside everybody else's pods.
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
    """The nodes with so much less that is free; it is nothing at least."""
    return {name: _less(node, kept[name]) if name in kept else node for name, node in nodes.items()}


def _tightly(
    task: TaskInfo, free: FreeCapacity, movable: FreeCapacity
) -> Iterator[tuple[int, int]]:
    """Take room for the replicas of a task where little is left; rows, and how many there.

    First what is free, then what is free if all make way that can be moved. There may be less
    than is asked for.
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
