"""Indexes of the replicas of an answer. A policy gives the number of replicas per node; a replica
that stays on its node keeps its index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from di_operator.allocator.model.job import JobInfo, NodeList


def with_indexes_kept(job: JobInfo, had: NodeList, wants: NodeList) -> NodeList:
    """Return the nodes in an order in which as many replicas as possible stay on theirs."""
    if not had or had == wants:
        return wants
    units = {task.name: task.unit for task in job.tasks}
    return NodeList(
        tuple(
            (name, _ordered(had.task(name), nodes, units.get(name, 1)))
            for name, nodes in wants.tasks
        )
    )


def _ordered(had: Sequence[str], wants: Sequence[str], unit: int) -> tuple[str, ...]:
    """Return the nodes by index; a replica of several pods stays if all of its pods can."""
    left = Counter(wants)
    found: list[Sequence[str] | None] = []
    for before, _ in zip(_replicas(had, unit), _replicas(wants, unit), strict=False):
        stays = Counter(before) <= left
        found.append(before if stays else None)
        if stays:
            left.subtract(before)
    # In the order of the answer, which has the pods of a replica beside each other.
    rest: list[str] = []
    for node in wants:
        if left[node] > 0:
            left[node] -= 1
            rest.append(node)
    others = iter(_replicas(rest, unit))
    found += [None] * (len(wants) // unit - len(found))
    return tuple(node for replica in found for node in replica or next(others))


def _replicas(nodes: Sequence[str], unit: int) -> Sequence[Sequence[str]]:
    return [nodes[begin : begin + unit] for begin in range(0, len(nodes), unit)]
