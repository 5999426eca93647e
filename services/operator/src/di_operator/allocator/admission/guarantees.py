"""Guarantees of namespaces, protected against jobs that are never moved. Pure.

A guarantee is lent to preemptible jobs, which give it back. A gang does not: it starts only if the
guarantees of other namespaces remain available, even if they are not used at present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from di_operator.allocator.admission.in_order import in_order
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
    started.

    Args:
        jobs: the jobs that the allocator decides on.
        held: the nodes that they have.
        nodes: their free capacity is what these jobs can have in all.
        queues: the settings of namespaces.
        besides: by namespace, what it has that the allocator does not decide on.
    """
    found = dict(jobs)
    promised = {
        name: {
            resource: max(0, amount - besides.get(name, {}).get(resource, 0))
            for resource, amount in queue.guarantee.items()
        }
        for name, queue in queues.by_namespace.items()
        if queue.guarantee
    }
    gangs = [job for job in in_order(jobs) if not job.preemptible]
    if not promised or not gangs:
        return found
    room = total(node.free for node in nodes.values())
    fixed: dict[str, dict[str, int]] = {}
    for job in sorted(gangs, key=lambda job: not held.get(job.key)):
        asked = asked_by(job, {task.name: task.replicas for task in job.tasks})
        known = fixed.get(job.namespace, {})
        then = {**fixed, job.namespace: total((known, asked))}
        short = None if held.get(job.key) else _short(asked, then, promised, room)
        if short is None:
            fixed = then
        else:
            barred = f"it cannot start: other namespaces are guaranteed too much of {short}"
            account = job.account or Account()
            found[job.key] = replace(job, account=replace(account, barred=barred))
    return found


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
