"""Guarantees of namespaces, protected against jobs that are never moved. Pure.

A guarantee is lent to preemptible jobs, which give it back. A gang does not: it starts only if the
guarantees of other namespaces remain available, even if they are not used at present.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import Account, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import Resources, in_units, total
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
    running = [_Use.of(jobs[key], placed) for key, placed in held.items() if placed and key in jobs]
    fixed = [each for each in running if each.is_fixed]
    lent: dict[frozenset[str], dict[str, Resources]] = {}
    for job in gangs:
        if held.get(job.key):
            continue
        usable = frozenset(
            capacity.nodes[row].name for task in job.tasks for row in capacity.rows(task)
        )
        if usable not in lent:
            # What a namespace has on other nodes counts against its guarantee.
            lent[usable] = _by_namespace(running, nodes.keys() - usable)
        asked = asked_by(job, {task.name: task.replicas for task in job.tasks})
        this = _Use(namespace=job.namespace, nodes={}, anywhere=asked, usable=usable)
        short = _short(
            asked,
            _by_namespace((*fixed, this), usable),
            {name: _less(floor, lent[usable].get(name, {})) for name, floor in promised.items()},
            total(nodes[name].free for name in usable),
        )
        if short is None or not usable:
            fixed.append(this)
            continue
        barred = (
            f"it cannot start: other namespaces are guaranteed too much of {short} on the nodes"
            " that it can use"
        )
        account = job.account or Account()
        found[job.key] = replace(job, account=replace(account, barred=barred))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """What a job takes: by node if it runs, else `anywhere` on the nodes `usable`."""

    namespace: str
    nodes: Mapping[str, Resources]
    anywhere: Resources = field(default_factory=dict)
    usable: frozenset[str] = frozenset()
    is_fixed: bool = True

    @classmethod
    def of(cls, job: JobInfo, placed: NodeList) -> _Use:
        """Return what a running job takes."""
        nodes: dict[str, list[Resources]] = {}
        for task in job.tasks:
            for name in placed.task(task.name):
                nodes.setdefault(name, []).append(task.resources)
        return cls(
            namespace=job.namespace,
            nodes={name: total(each) for name, each in nodes.items()},
            is_fixed=not job.preemptible,
        )

    def on(self, nodes: Set[str]) -> Resources:
        """Return the most that it takes of some nodes."""
        taken = [amounts for name, amounts in self.nodes.items() if name in nodes]
        return total(taken if self.usable.isdisjoint(nodes) else [*taken, self.anywhere])


def _by_namespace(uses: Iterable[_Use], nodes: Set[str]) -> dict[str, Resources]:
    """Return, by namespace, what jobs take of some nodes."""
    found: dict[str, list[Resources]] = {}
    for use in uses if nodes else ():
        found.setdefault(use.namespace, []).append(use.on(nodes))
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
