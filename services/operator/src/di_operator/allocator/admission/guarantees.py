"""Guarantees of namespaces, protected against jobs that are never moved. Pure.

A guarantee is lent to preemptible jobs, which give it back. A gang does not: it starts only if the
guarantees of other namespaces remain available, even if they are not used at present.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import Account, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import Resources, in_units, total
from di_operator.allocator.model.shared_nodes import Rows
from di_operator.allocator.sharing.queues import Queues
from di_operator.allocator.sharing.quotas import asked_by


def bar_gangs(
    jobs: Mapping[str, JobInfo],
    held: Mapping[str, NodeList],
    nodes: Mapping[str, NodeInfo],
    queues: Queues,
    besides: Mapping[str, Resources],
) -> dict[str, JobInfo]:
    """Return the jobs, with those gangs barred that would occupy guaranteed capacity of others.

    Waiting gangs are checked in order, as if the ones before them that are allowed to start had
    started. Only the nodes that a gang can use count, and what a namespace has elsewhere counts
    against its guarantee.

    Args:
        jobs: the jobs that the allocator decides on.
        held: the nodes that they have.
        nodes: their free capacity is what these jobs can have in all.
        queues: the settings of namespaces.
        besides: by namespace, what it has that the allocator does not decide on.
    """
    found = dict(jobs)
    promised = {
        name: _less(queue.guarantee, besides.get(name, {}))
        for name, queue in queues.by_namespace.items()
        if queue.guarantee
    }
    gangs = [job for job in in_order(jobs) if not job.preemptible]
    if not promised or not gangs:
        return found
    capacity = FreeCapacity(nodes)
    running = [
        (jobs[key], _taken_by_row(jobs[key], placed, capacity))
        for key, placed in held.items()
        if placed and key in jobs
    ]
    started: list[_Started] = []
    pools: dict[Rows, _Pool] = {}
    for job in gangs:
        if held.get(job.key):
            continue
        rows = frozenset[int]().union(*map(capacity.rows, job.tasks))
        if not rows:
            # It fits nowhere, and occupies nothing.
            continue
        if rows not in pools:
            pools[rows] = _Pool.of(rows, capacity, running, started)
        pool = pools[rows]
        asked = asked_by(job, {task.name: task.replicas for task in job.tasks})
        short = _short(
            asked,
            pool.with_gang(job.namespace, asked),
            {name: _less(floor, pool.elsewhere.get(name, {})) for name, floor in promised.items()},
            pool.room,
        )
        if short is None:
            started.append(_Started(namespace=job.namespace, asked=asked, rows=rows))
            for each in pools.values():
                each.count(started[-1])
            continue
        barred = (
            f"it cannot start: other namespaces are guaranteed too much of {short} on the nodes"
            " that it can use"
        )
        account = job.account or Account()
        found[job.key] = replace(job, account=replace(account, barred=barred))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    """A waiting gang that is allowed to start, on some of the nodes `rows`."""

    namespace: str
    asked: Resources
    rows: Rows


_Running: TypeAlias = tuple[JobInfo, Mapping[int, Resources]]
"""A running job, and what it takes by row of a node."""


@dataclass(slots=True, kw_only=True)
class _Pool:
    """The capacity that namespaces use of the nodes that a gang can use.

    Gangs with equal nodes share a pool, so that each gang is counted once for each pool.
    """

    rows: Rows
    room: Resources
    fixed: dict[str, Resources]
    """By namespace, what its gangs take of these nodes at most."""
    elsewhere: Mapping[str, Resources]
    """By namespace, what its jobs take of all other nodes: it counts against the guarantee."""

    @classmethod
    def of(
        cls,
        rows: Rows,
        capacity: FreeCapacity,
        running: Sequence[_Running],
        started: Iterable[_Started],
    ) -> _Pool:
        """Return the pool of some nodes, with the running jobs and the gangs that start."""
        others = frozenset(range(len(capacity.nodes))) - rows
        fixed = [(job, taken) for job, taken in running if not job.preemptible]
        pool = cls(
            rows=rows,
            room=total(capacity.nodes[row].free for row in rows),
            fixed=_by_namespace(fixed, rows),
            elsewhere=_by_namespace(running, others) if others else {},
        )
        for gang in started:
            pool.count(gang)
        return pool

    def with_gang(self, namespace: str, asked: Resources) -> dict[str, Resources]:
        """Return what gangs take, by namespace, if one more starts."""
        return {**self.fixed, namespace: total((self.fixed.get(namespace, {}), asked))}

    def count(self, gang: _Started) -> None:
        """Count a gang that starts, unless it can use none of these nodes."""
        if not gang.rows.isdisjoint(self.rows):
            self.fixed = self.with_gang(gang.namespace, gang.asked)


def _taken_by_row(job: JobInfo, placed: NodeList, capacity: FreeCapacity) -> dict[int, Resources]:
    """Return what a running job takes of each node, by row."""
    found: dict[int, list[Resources]] = {}
    for task in job.tasks:
        for name in placed.task(task.name):
            if (row := capacity.index.get(name)) is not None:
                found.setdefault(row, []).append(task.resources)
    return {row: total(each) for row, each in found.items()}


def _by_namespace(running: Iterable[_Running], rows: Rows) -> dict[str, Resources]:
    """Return, by namespace, what running jobs take of some nodes."""
    found: dict[str, list[Resources]] = {}
    for job, taken in running:
        there = (amounts for row, amounts in taken.items() if row in rows)
        found.setdefault(job.namespace, []).extend(there)
    return {namespace: total(each) for namespace, each in found.items()}


def _less(amounts: Resources, taken: Resources) -> dict[str, int]:
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in amounts.items()}


def _short(
    asked: Resources,
    fixed: Mapping[str, Resources],
    promised: Mapping[str, Resources],
    room: Resources,
) -> str | None:
    """Return the first resource that would fall short of the guarantees, with the amount that
    would be left; None if all remain available.
    """
    for name in sorted({each for floor in promised.values() for each in floor}):
        kept = sum(
            max(fixed.get(namespace, {}).get(name, 0), promised.get(namespace, {}).get(name, 0))
            for namespace in {*fixed, *promised}
        )
        if asked.get(name) and kept > room.get(name, 0):
            return f"the {in_units(room.get(name, 0))} {name}"
    return None
