"""Admission when namespaces have shares: all or nothing, in order, with lent capacity returned.

A running job continues as under `admit`, except for what its namespace has beyond its share. That
part makes way, the youngest jobs first, when a job of a namespace below its share waits or could
grow. The other namespace must not exceed its own share by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from di_operator.allocator.admission.backfill import Backfill
from di_operator.allocator.admission.growth import ENOUGH, at_most_asked
from di_operator.allocator.admission.in_order import (
    ChooseNode,
    admit_one,
    admit_waiting,
    in_order,
)
from di_operator.allocator.admission.preemption import Preemption, all_or_nothing, least_size
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import Resources, total
from di_operator.allocator.model.shared_nodes import Rows, joined
from di_operator.allocator.sharing.fair_shares import EXACT, Amounts, Claim, Shares, entitle, fits
from di_operator.allocator.sharing.quotas import Allowance, asked_by, within_quotas


@dataclass(slots=True, kw_only=True)
class _Parts:
    """The jobs by their relation to their namespace's share, in the order of precedence.

    `safe` run within the share. `due` wait, and are entitled to the size given here. `lent` run
    beyond the share, and `less` has the sizes that would be within it. `short` are those of `safe`
    that are entitled to grow to the size given here.
    """

    safe: list[JobInfo] = field(default_factory=list)
    due: list[JobInfo] = field(default_factory=list)
    lent: list[JobInfo] = field(default_factory=list)
    less: dict[str, JobInfo] = field(default_factory=dict)
    short: list[JobInfo] = field(default_factory=list)


def admit_by_shares(
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    previous: Mapping[str, NodeList],
    *,
    choose_node: ChooseNode,
    backfill: Backfill,
    shares: Shares,
) -> dict[str, NodeList]:
    """Return the nodes of every job, as `admit` does."""
    admission = _Admission(FreeCapacity(nodes), dict.fromkeys(jobs, WAIT), choose_node)
    previous = at_most_asked(jobs, previous)
    bounded, held = within_quotas(jobs, in_order(jobs), previous)
    # After a large job has made way, a smaller one of its namespace may be due in its place.
    for _ in {job.namespace for job in jobs.values()}:
        admission = _Admission(FreeCapacity(nodes), dict.fromkeys(jobs, WAIT), choose_node)
        admission.keep((job for job in jobs.values() if not job.preemptible), previous)
        admission.capacity.settle()
        admission.give_back(in_order(bounded), held, shares)
        if not any(held.get(key) and not placed for key, placed in admission.answer.items()):
            break
        held = admission.answer
    allowance = Allowance()
    for key, placed in admission.answer.items():
        allowance.take(jobs[key], placed)
    # A high priority takes nothing from another namespace's share.
    admission.by_priority(jobs, allowance, lambda job, other: job.namespace == other.namespace)
    admit_waiting(
        jobs,
        nodes,
        admission.capacity,
        admission.answer,
        allowance,
        choose_node=choose_node,
        backfill=backfill,
    )
    return admission.answer


@dataclass(slots=True)
class _Admission(Preemption):
    """An answer by shares under construction."""

    def keep(self, jobs: Iterable[JobInfo], previous: Mapping[str, NodeList]) -> None:
        """Keep jobs on their nodes as far as that is still possible."""
        for job in jobs:
            had = previous.get(job.key, WAIT)
            if had and self.capacity.take_all(job, had):
                self.answer[job.key] = had

    def give_back(
        self, jobs: Iterable[JobInfo], held: Mapping[str, NodeList], shares: Shares
    ) -> None:
        """Keep running jobs, and start the jobs that are due in place of lent capacity."""
        parts = _divide([job for job in jobs if job.preemptible], self.capacity, held, shares)
        self.keep(parts.safe, held)
        self.keep(parts.lent, held)
        lent = [job for job in parts.lent if self.answer[job.key]]
        for job in parts.due:
            lent = self.make_room(job, lent)
        for job in parts.short:
            lent = self.grow(job, lent)
        for key, job in parts.less.items():
            if not self.answer[key]:
                self.answer[key] = admit_one(self.capacity, job, self.choose_node)

    def make_room(self, job: JobInfo, lent: list[JobInfo]) -> list[JobInfo]:
        """Start a job with all that it is due, or else its least size, at the expense of others.

        No job makes way unless the new one then fits. Returns those of `lent` that still run.
        """
        for wanted in (all_or_nothing(job), least_size(job)):
            if (left := self._of_others(lent, wanted)) is not None:
                return left
        return lent

    def grow(self, job: JobInfo, lent: list[JobInfo]) -> list[JobInfo]:
        """Grow a running job to the size it is due, or leave it unchanged."""
        had = self.answer[job.key]
        if not had:
            return lent
        self.capacity.book(job, had, -1)
        left = self._of_others(lent, all_or_nothing(job))
        if left is None:
            self.capacity.book(job, had)
            return lent
        return left

    def _of_others(self, lent: list[JobInfo], job: JobInfo) -> list[JobInfo] | None:
        """Place a job at the expense of other namespaces' jobs. Returns which of `lent` still run;
        None if the job would not fit even then.
        """
        left = self.in_place_of([one for one in lent if one.namespace != job.namespace], job)
        return None if left is None else [one for one in lent if self.answer[one.key]]


def _is_enough(replicas: int, had: NodeList, job: JobInfo) -> bool:
    """Return whether a job is allowed to restart with so many replicas in all: at least twice as
    many as it has, or all that it asks for. This bounds how often it grows.
    """
    return replicas > len(had) and replicas >= min(_size(job), ENOUGH * len(had))


def _size(job: JobInfo) -> int:
    """Return the number of replicas that a job asks for, over all its tasks."""
    return sum(task.replicas for task in job.tasks)


def _divide(
    jobs: list[JobInfo],
    capacity: FreeCapacity,
    previous: Mapping[str, NodeList],
    shares: Shares,
) -> _Parts:
    parts = _Parts()
    # A job that could not run on the empty nodes holds nothing back.
    jobs = [job for job in jobs if all(sum(capacity.slots(t)) >= t.minimum for t in job.tasks)]
    usable = {job.key: frozenset[int]().union(*map(capacity.rows, job.tasks)) for job in jobs}
    together = joined(usable.values())
    pools: dict[Rows, list[JobInfo]] = {}
    for job in jobs:
        pools.setdefault(together[usable[job.key]], []).append(job)
    # What namespaces are due in one pool counts against their guarantees in the next.
    taken: dict[str, dict[str, int]] = {}
    for rows, competing in pools.items():
        free = total([capacity.free[row] for row in sorted(rows)])
        counted = [_counted(job, taken.get(job.namespace)) for job in competing]
        due = _divide_pool(
            parts, counted, free, held=_held(counted, previous, capacity), shares=shares
        )
        for namespace, amounts in due.items():
            more = {name: int(amount) for name, amount in amounts.items()}
            taken[namespace] = total((taken.get(namespace, {}), more))
    return parts


def _counted(job: JobInfo, taken: Resources | None) -> JobInfo:
    if job.account is None or not taken:
        return job
    return replace(job, account=replace(job.account, taken=total((job.account.taken, taken))))


def _held(
    jobs: Iterable[JobInfo], previous: Mapping[str, NodeList], capacity: FreeCapacity
) -> dict[str, NodeList]:
    return {job.key: _there(previous.get(job.key, WAIT), capacity) for job in jobs}


def _divide_pool(
    parts: _Parts,
    jobs: list[JobInfo],
    free: Resources,
    *,
    held: Mapping[str, NodeList],
    shares: Shares,
) -> Mapping[str, Amounts]:
    """Divide the free capacity of the nodes that jobs compete for into `parts`. Returns what each
    namespace is due.
    """
    takes = {job.key: _taken(job, held[job.key]) for job in jobs}
    # All that the job asks for, even while it runs on less.
    asked = {job.key: _most(takes[job.key], _asked(job)) for job in jobs}
    room = shares.measured(total(asked.values()), free)
    wanted: dict[str, dict[str, float]] = {}
    for job in jobs:
        known = wanted.setdefault(job.namespace, dict.fromkeys(room, 0.0))
        for name in room:
            known[name] += asked[job.key].get(name, 0)
    claims = [
        Claim(job=job, least=_measured(_asked(least_size(job)), room), holds=bool(held[job.key]))
        for job in jobs
    ]
    due = entitle(wanted, claims, shares, room)
    left: dict[str, Amounts] = dict(due.rooms)
    for claim in sorted(
        claims, key=lambda claim: (claim.job.key not in due.turns, not claim.holds)
    ):
        job = claim.job
        part = claim.least if job.key in due.turns else left[job.namespace]
        within, has = _within(claim, part), _measured(takes[job.key], room)
        if claim.holds and fits(has, part):
            parts.safe.append(job)
        elif claim.holds:
            parts.lent.append(job)
            if within is not None:
                parts.less[job.key] = within
        elif within is not None:
            parts.due.append(within)
            has = _measured(_asked(within), room)
        else:
            continue
        if job.key not in due.turns:
            left[job.namespace] = _less(part, has)
    safe = {job.key for job in parts.safe} - due.turns
    parts.short += _larger([claim for claim in claims if claim.job.key in safe], held, left)
    return due.rooms


def _larger(
    claims: Sequence[Claim], held: Mapping[str, NodeList], left: dict[str, Amounts]
) -> list[JobInfo]:
    """Return running jobs below their requested size, at the size that is left of their
    namespaces' shares. No waiting job is due that capacity.
    """
    found = []
    for claim in claims:
        job = claim.job
        part = _more(left[job.namespace], _taken(job, held[job.key]))
        larger = _within(claim, part)
        if larger is not None and _is_enough(_size(larger), held[job.key], job):
            found.append(larger)
            left[job.namespace] = _less(part, _asked(larger))
    return found


def _more(part: Amounts, taken: Amounts) -> dict[str, float]:
    return {name: amount + taken.get(name, 0) for name, amount in part.items()}


def _less(part: Amounts, taken: Amounts) -> dict[str, float]:
    return {name: max(0.0, amount - taken.get(name, 0)) for name, amount in part.items()}


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def _measured(amounts: Mapping[str, int], room: Amounts) -> dict[str, float]:
    return {name: amounts.get(name, 0) for name in room}


def _there(held: NodeList, capacity: FreeCapacity) -> NodeList:
    return held if all(name in capacity.index for name in held) else WAIT


def _taken(job: JobInfo, held: NodeList) -> dict[str, int]:
    """Return what a job takes of each resource."""
    return asked_by(job, {task.name: len(held.task(task.name)) for task in job.tasks})


def _asked(job: JobInfo) -> dict[str, int]:
    """Return what a job would take of each resource at its requested size."""
    return asked_by(job, {task.name: task.replicas for task in job.tasks})


def _within(claim: Claim, room: Amounts) -> JobInfo | None:
    """Return the job at the largest size that fits into an amount; None: not even its least size
    fits.
    """
    if not fits(claim.least, room):
        return None
    over = {name: amount - claim.least.get(name, 0.0) for name, amount in room.items()}
    tasks = []
    for task in claim.job.tasks:
        more = task.replicas - task.minimum
        each = [(name, amount) for name in room if (amount := task.resources.get(name, 0))]
        if each and more > 0:
            more = min(more, *(int(over[name] * EXACT // amount) for name, amount in each))
            more -= more % task.unit
            for name, amount in each:
                over[name] -= more * amount
        tasks.append(replace(task, replicas=task.minimum + more))
    return replace(claim.job, tasks=tuple(tasks))
