"""Preemption: the running jobs that make way for one that waits.

Two rules choose the candidates. With shares they are jobs of other namespaces beyond their share
(`by_shares`). By priority they are preemptible jobs of lower priority. The last candidates in the
order of precedence make way first, and no more than needed. A job makes way only if the other one
then fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from di_operator.allocator.admission.in_order import ChooseNode, admit_one, in_order
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.sharing.quotas import Allowance


@dataclass(slots=True)
class Preemption:
    """An answer under construction, and what is free beside it."""

    capacity: FreeCapacity
    answer: dict[str, NodeList]
    choose_node: ChooseNode

    def in_place_of(self, candidates: list[JobInfo], job: JobInfo) -> list[JobInfo] | None:
        """Place a job at the expense of candidates. Returns the candidates that still run; None,
        without a change, if the job does not fit even without all of them.
        """
        gone = self._displaced(job, candidates[::-1])
        return None if gone is None else [other for other in candidates if other.key not in gone]

    def by_priority(
        self,
        jobs: Mapping[str, JobInfo],
        allowance: Allowance,
        may_take: Callable[[JobInfo, JobInfo], bool] = lambda _job, _other: True,
    ) -> None:
        """Start waiting jobs in place of preemptible jobs of lower priority.

        As few jobs make way as the waiting job needs to start. From the capacity that is then free
        it gets all that it asks for. Jobs that make way wait, and can start again on what is left.

        Args:
            jobs: all that the answer is about.
            allowance: of namespaces; counts what is in the answer.
            may_take: returns whether a job is allowed to take from another one of lower
                priority.
        """
        running = [job for job in in_order(jobs) if job.preemptible and self.answer[job.key]]
        if not running:
            return
        for job in in_order(jobs):
            if job.priority <= running[-1].priority:
                # Those that come later have no higher priority.
                break
            if self.answer[job.key] or (within := allowance.within(job)) is None:
                continue
            candidates = [
                other for other in running if other.priority < job.priority and may_take(job, other)
            ]
            before = {other.key: self.answer[other.key] for other in candidates}
            if not candidates or self.in_place_of(candidates, within) is None:
                continue
            allowance.take(job, self.answer[job.key])
            for other in candidates:
                if not self.answer[other.key]:
                    allowance.take(other, before[other.key], -1)
            running = [other for other in running if self.answer[other.key]]
            if not running:
                break

    def _displaced(self, job: JobInfo, others: Sequence[JobInfo]) -> set[str] | None:
        """Place a job. Returns which of the others, in their order, made way for it; None if it
        does not fit without all of them.
        """
        had = {other.key: self.answer[other.key] for other in others}
        self._book(others, had, -1)
        fits = admit_one(self.capacity, job, self.choose_node)
        self.capacity.book(job, fits, -1)
        self._book(others, had)
        if not fits:
            return None
        gone: list[JobInfo] = []
        while not (placed := admit_one(self.capacity, job, self.choose_node)):
            gone.append(others[len(gone)])
            self.capacity.book(gone[-1], had[gone[-1].key], -1)
        self.answer[job.key] = placed
        for other in gone:
            # Some made way on nodes that were not needed.
            stays = self.capacity.take_all(other, had[other.key])
            self.answer[other.key] = had[other.key] if stays else WAIT
        return {other.key for other in gone if not self.answer[other.key]}

    def _book(
        self, jobs: Iterable[JobInfo], placed: Mapping[str, NodeList], times: int = 1
    ) -> None:
        for job in jobs:
            self.capacity.book(job, placed[job.key], times)


def all_or_nothing(job: JobInfo) -> JobInfo:
    """Return the job if it can have all that it asks for and nothing less."""
    return replace(job, tasks=tuple(replace(task, minimum=task.replicas) for task in job.tasks))


def least_size(job: JobInfo) -> JobInfo:
    """Return the job if it asks for its minimum."""
    return replace(
        job,
        tasks=tuple(replace(task, replicas=min(task.minimum, task.replicas)) for task in job.tasks),
    )
