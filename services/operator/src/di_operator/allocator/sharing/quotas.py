"""Quotas of namespaces, enforced while an answer is made and again when it is checked. Pure.

A quota bounds what all jobs of a namespace have together. Jobs that the allocator does not decide
on count, though it cannot hold them back. Its own jobs start and grow within what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo, least
from di_operator.allocator.model.pod_scopes import resource_of
from di_operator.allocator.model.resources import Resources, in_units, total


class Allowance:
    """The remaining quota of namespaces while an answer is made. Jobs without an account are
    unbounded and not counted.
    """

    def __init__(self) -> None:
        self._used: dict[str, dict[str, int]] = {}

    @classmethod
    def beside_fixed(
        cls, jobs: Mapping[str, JobInfo], previous: Mapping[str, NodeList]
    ) -> Allowance:
        """Return one in which jobs that are never moved are counted already."""
        found = cls()
        for job in jobs.values():
            if job.account is not None and not job.preemptible:
                found.take(job, previous.get(job.key, WAIT))
        return found

    def take(self, job: JobInfo, placed: NodeList, times: int = 1) -> None:
        """Count what a job is given; -1 takes it back."""
        for task in job.tasks if job.account else ():
            self.take_replicas(job, task, times * len(placed.task(task.name)))

    def take_replicas(self, job: JobInfo, task: TaskInfo, count: int) -> None:
        """Count replicas of a task."""
        if job.account is None:
            return
        used = self._used.setdefault(job.namespace, {})
        for name, amount in task.counted.items():
            used[name] = used.get(name, 0) + count * amount

    def left(self, job: JobInfo) -> dict[str, int]:
        """Return what a job's namespace can still have, of the resources that have a quota."""
        if job.account is None:
            return {}
        used, taken = self._used.get(job.namespace, {}), job.account.taken
        return {
            name: max(0, quota - taken.get(name, 0) - used.get(name, 0))
            for name, quota in job.account.quota.items()
        }

    def allows(self, job: JobInfo, placed: NodeList) -> bool:
        """Return whether a job can be given that much."""
        if job.account is None:
            return True
        return _fits(
            counted_by(job, {t.name: len(placed.task(t.name)) for t in job.tasks}), self.left(job)
        )

    def has_room(self, job: JobInfo, task: TaskInfo, count: int) -> bool:
        """Return whether a job can be given so many more replicas of a task."""
        return job.account is None or _fits(_times(task, count), self.left(job))

    def within(self, job: JobInfo) -> JobInfo | None:
        """Return the job at the largest size allowed; itself if it is unbounded, None: not even
        its least size.
        """
        if job.account is None:
            return job
        if job.account.barred:
            return None
        left = self.left(job)
        for task in job.tasks:
            for name, amount in _times(task, least(job, task)).items():
                if name in left:
                    left[name] -= amount
        if any(amount < 0 for amount in left.values()):
            return None
        counts = {task.name: least(job, task) for task in job.tasks}
        # First what is asked for, of all tasks, then what is possible beyond it.
        asked = _grow(job, counts, {task.name: task.replicas for task in job.tasks}, left)
        most = _grow(job, asked, {task.name: task.maximum for task in job.tasks}, left)
        tasks = tuple(
            replace(task, replicas=asked[task.name], maximum=max(task.minimum, most[task.name]))
            for task in job.tasks
        )
        return job if tasks == job.tasks else replace(job, tasks=tasks)

    def cut(self, job: JobInfo, wants: NodeList, had: NodeList) -> NodeList:
        """Return the part of an answer that the quota allows; a fixed job that runs keeps what it
        has.
        """
        if not job.preemptible and wants == had:
            return wants
        if job.account is not None and job.account.barred:
            return WAIT
        if self.allows(job, wants):
            return wants
        found = {task.name: len(wants.task(task.name)) for task in job.tasks}
        bounded = replace(
            job,
            tasks=tuple(
                # Fewer learners mean a restart, so the other tasks give way first.
                replace(task, replicas=found[task.name], maximum=found[task.name])
                for task in sorted(job.tasks, key=lambda task: task is not job.scaled)
            ),
        )
        within = self.within(bounded)
        if within is None:
            return WAIT
        sizes = {task.name: task.replicas for task in within.tasks}
        return NodeList(tuple((name, nodes[: sizes[name]]) for name, nodes in wants.tasks))

    def shortage(self, job: JobInfo) -> str:
        """Return why the quota keeps a job waiting, with numbers; empty: it does not."""
        if job.account is None or self.within(job) is not None:
            return ""
        left = self.left(job)
        needs = counted_by(job, {task.name: least(job, task) for task in job.tasks})
        short = sorted(name for name, room in left.items() if needs.get(name, 0) > room)
        quota = job.account.quota
        has = total((job.account.taken, self._used.get(job.namespace, {})))
        return f"the quota of namespace {job.namespace}: " + "; ".join(
            f"it has {in_units(has.get(name, 0))} of its {in_units(quota[name])} "
            f"{resource_of(name)}{_named(job.account.names.get(name))}, "
            f"and the job needs {in_units(needs[name])}"
            for name in short
        )


def within_quotas(
    jobs: Mapping[str, JobInfo], order: Iterable[JobInfo], previous: Mapping[str, NodeList]
) -> tuple[dict[str, JobInfo], dict[str, NodeList]]:
    """Return the jobs that can all run together by their quotas, at their largest sizes, and their
    nodes of `previous`.

    Running jobs keep their nodes first, then others start, then running ones grow; each in
    `order`.
    """
    allowance = Allowance.beside_fixed(jobs, previous)
    found: dict[str, JobInfo] = {}
    held: dict[str, NodeList] = {}
    for job in sorted(order, key=lambda job: not previous.get(job.key, WAIT)):
        had = previous.get(job.key, WAIT)
        if had and not job.preemptible:
            found[job.key], held[job.key] = job, had
        elif had and allowance.allows(job, had):
            allowance.take(job, had)
            found[job.key], held[job.key] = job, had
        elif (within := allowance.within(job)) is not None:
            found[job.key] = within
            for task in within.tasks:
                allowance.take_replicas(within, task, task.replicas)
    for key, had in held.items():
        if found[key].preemptible:
            allowance.take(found[key], had, -1)
            found[key] = within = allowance.within(found[key]) or found[key]
            for task in within.tasks:
                size = max(task.replicas, len(had.task(task.name)))
                allowance.take_replicas(within, task, size)
    return found, held


def _named(quota: str | None) -> str:
    return "" if quota is None else f" (ResourceQuota {quota})"


def asked_by(job: JobInfo, counts: Mapping[str, int]) -> dict[str, int]:
    """Return what so many replicas of each task take."""
    return total(_multiplied(task.resources, counts.get(task.name, 0)) for task in job.tasks)


def counted_by(job: JobInfo, counts: Mapping[str, int]) -> dict[str, int]:
    """Return what quotas count of so many replicas of each task."""
    return total(_times(task, counts.get(task.name, 0)) for task in job.tasks)


def _times(task: TaskInfo, count: int) -> dict[str, int]:
    return _multiplied(task.counted, count)


def _multiplied(amounts: Resources, count: int) -> dict[str, int]:
    return {name: count * amount for name, amount in amounts.items()}


def _fits(amounts: Resources, left: Resources) -> bool:
    return all(amounts.get(name, 0) <= room for name, room in left.items())


def _grow(
    job: JobInfo, counts: Mapping[str, int], upto: Mapping[str, int], left: dict[str, int]
) -> dict[str, int]:
    """Return more replicas of each task in turn, in whole units, within what is left."""
    found = dict(counts)
    for task in job.tasks:
        more = max(0, upto[task.name] - found[task.name])
        for name, amount in task.counted.items():
            if amount and name in left:
                more = min(more, left[name] // amount)
        more -= more % task.unit
        for name, amount in _times(task, more).items():
            if name in left:
                left[name] -= amount
        found[task.name] += more
    return found
