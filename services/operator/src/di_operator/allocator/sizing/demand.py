"""Demands of jobs: the sizes that they can be offered on every kind of nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from di_operator.allocator.goodput.curves import Curve
from di_operator.allocator.goodput.kinds import Ladder
from di_operator.allocator.goodput.objective import Part, short_first_weights, speed_of_one
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo, TaskInfo
from di_operator.allocator.model.resources import scarcest, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The sizes that a job can have on nodes of one kind."""

    task: TaskInfo
    """The task whose size is chosen; with several kinds of nodes, restricted to this one."""
    rows: frozenset[int]
    """The nodes that it can use, by their row in the free capacity."""
    ladder: Ladder
    present: int
    offered: int
    """The number of sizes that can be taken now; the larger ones are for later."""

    def costs(self, job: JobInfo, resource: str) -> list[float]:
        """Return each size's amount of one resource, or of what a quota counts, including the least
        of the other tasks.
        """
        each = self.task.counted.get(resource, 0)
        others = sum(
            task.minimum * task.counted.get(resource, 0)
            for task in job.tasks
            if task.name != self.task.name
        )
        return [float(size * each + others) if size else 0.0 for size in self.ladder.sizes]

    def takes(self, job: JobInfo) -> list[dict[str, float]]:
        """Return the amounts of all resources, and of what quotas count, for each size, including
        the least of the other tasks.
        """
        names = sorted({name for task in job.tasks for name in task.counted})
        by_name = {name: self.costs(job, name) for name in names}
        return [
            {name: costs[at] for name, costs in by_name.items()}
            for at in range(len(self.ladder.sizes))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A job and its options."""

    job: JobInfo
    task: TaskInfo
    """The task whose size is chosen."""
    options: Mapping[str, Option]
    """By kind of nodes, without those on which it does not fit."""
    silent: bool
    """It has had its time to report, and has not."""

    def not_above_present(self) -> Demand:
        """Return the demand without the sizes above its present one."""
        most = max([option.present for option in self.options.values()])
        options = {
            kind: replace(
                option, offered=min(option.offered, bisect_right(option.ladder.sizes, most))
            )
            for kind, option in self.options.items()
        }
        return replace(self, options=options)

    @property
    def rows(self) -> frozenset[int]:
        """Return the nodes that it can use, of all kinds."""
        first, *rest = [option.rows for option in self.options.values()]
        return first.union(*rest) if rest else first

    def parts(
        self, speeds: Mapping[str, Curve], amount: Callable[[frozenset[int]], int]
    ) -> list[Part]:
        """Return the job's speeds on each kind, by the amount that its nodes of the kind have."""
        amounts = {kind: amount(option.rows) for kind, option in self.options.items()}
        whole = sum(amounts.values())
        return [
            Part(
                share=amounts[kind] / whole if whole else 1 / len(self.options),
                sizes=option.ladder.sizes,
                speeds=speeds[kind],
            )
            for kind, option in self.options.items()
        ]


def scarcest_of(demands: Sequence[Demand], capacity: FreeCapacity, rows: Iterable[int]) -> str:
    """Return the resource that would be used up first on some nodes if all got the most that they
    are offered.
    """
    wanted: Counter[str] = Counter()
    for demand in demands:
        most = max([option.ladder.sizes[-1] for option in demand.options.values()])
        for name, amount in demand.task.resources.items():
            wanted[name] += most * amount
    return scarcest(wanted, total([capacity.free[row] for row in rows]))


def ranks(demands: Sequence[Demand], parts: Sequence[Sequence[Part]]) -> dict[str, float] | None:
    """Return weights by the work left, if at least half of the jobs that report include it."""
    reported = [demand.job for demand in demands if demand.job.reports]
    saying = sum(job.remaining is not None for job in reported)
    if not saying or 2 * saying < len(reported):
        return None
    return short_first_weights(
        {d.job.key: _left(d.job, part) for d, part in zip(demands, parts, strict=True)}
    )


def quiet_seconds(demands: Sequence[Demand], speeds: Sequence[Mapping[str, Curve]]) -> float:
    """Return how long sizes are expected to stay, in seconds.

    They stay until the first of the jobs ends at its present speed. The time of the next arrival
    is unknown; it is taken to be as far away as the last one.
    """
    ends = [_seconds_left(demand, speed) for demand, speed in zip(demands, speeds, strict=True)]
    return min([*ends, *[demand.job.age for demand in demands]])


def _seconds_left(demand: Demand, speeds: Mapping[str, Curve]) -> float:
    """Return the seconds until the job ends at its present speed; infinite if it stands still, or
    is unknown.
    """
    job = demand.job
    present = max(
        speeds[kind][bisect_right(option.ladder.sizes, option.present) - 1]
        for kind, option in demand.options.items()
    )
    if not job.reports or job.remaining is None or not present:
        return inf
    return job.remaining / present


def _left(job: JobInfo, parts: Sequence[Part]) -> float:
    """Return the seconds that the job would still take on one replica."""
    one = speed_of_one(parts)
    if job.reports and job.remaining is not None and one:
        return job.remaining / one
    # As much as it has had: the best estimate for work whose length is spread over orders of
    # magnitude. A job that has just started may be the shortest, and is tried.
    return job.attained
