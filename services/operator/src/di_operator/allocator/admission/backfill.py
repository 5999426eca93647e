"""Backfill: starts of later jobs while an earlier one waits, and its reservation. Pure.

With a reservation (EASY backfilling, D. Lifka, JSSPP'95) nodes are set aside for the first job
that waits. They are the nodes that will have enough free capacity soonest, by the expected ends of
the jobs on them. A later job starts beside the reservation, or inside it if it has to end before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any

from di_operator.allocator.model.free_capacity import FreeCapacity, tally
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo, least
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import Resources


class Backfill(Enum):
    """The values of the argument `backfill`."""

    ALL = True
    """Any job that fits starts."""
    NONE = False
    """No job overtakes one that waits."""
    RESERVE = "reserve"
    """A job that does not delay the reservation starts."""


def read_backfill(given: Any) -> Backfill:
    """Read a policy's argument. Raises ValueError."""
    for known in Backfill:
        if given is known.value:
            return known
    if given == Backfill.RESERVE.value:
        return Backfill.RESERVE
    raise ValueError(f'backfill: {given!r}: must be true, false or "reserve"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Rows of nodes that are set aside for replicas of a job's tasks.

    `after` is the expected time in seconds until all of it is free.
    """

    parts: tuple[tuple[TaskInfo, int], ...]
    after: float

    def book(self, capacity: FreeCapacity, times: int = 1) -> None:
        """Take the reserved capacity from what is free, even if that is less; -1 gives it back."""
        for task, row in self.parts:
            capacity.take(task, row, times)

    def outlasts(self, job: JobInfo) -> bool:
        """Return whether a job that starts now will have ended before the capacity is needed."""
        return job.longest is not None and job.longest <= self.after < inf


def reserve_for(
    job: JobInfo,
    capacity: FreeCapacity,
    nodes: Mapping[str, NodeInfo],
    running: Iterable[tuple[JobInfo, NodeList]],
) -> Reservation | None:
    """Set nodes aside for the least size of a job; None: it never fits.

    Args:
        job: the job, which does not fit at present.
        capacity: what is free beside `running`.
        nodes: the nodes as they are without any job.
        running: the jobs that have nodes now.
    """
    empty, leaving = FreeCapacity(nodes), _Leaving(capacity, running)
    parts: list[tuple[TaskInfo, int]] = []
    for task in job.tasks:
        for _ in range(least(job, task)):
            rows = [row for row, places in enumerate(empty.slots(task)) if places]
            if not rows:
                return None
            row = min(rows, key=lambda row: (*leaving.until_free(row, task), row))
            empty.take(task, row)
            leaving.reserve(row, task)
            parts.append((task, row))
    after = max((leaving.until_free(row)[0] for _, row in parts), default=0.0)
    return Reservation(parts=tuple(parts), after=after)


class _Leaving:
    """The times at which nodes get free capacity."""

    def __init__(self, capacity: FreeCapacity, running: Iterable[tuple[JobInfo, NodeList]]) -> None:
        self._free = [dict(free) for free in capacity.free]
        # By row: the seconds until each job ends, and what it gives back.
        self._ends: list[list[tuple[float, Resources]]] = [[] for _ in capacity.free]
        for job, placed in running:
            end = inf if job.ends is None else job.ends
            for row, amounts in _by_row(job, placed, capacity):
                self._ends[row].append((end, amounts))
        for ends in self._ends:
            ends.sort(key=lambda end: end[0])

    def reserve(self, row: int, task: TaskInfo) -> None:
        """Add a replica to what is needed there."""
        free = self._free[row]
        for name, amount in task.resources.items():
            free[name] = free.get(name, 0) - amount

    def until_free(self, row: int, task: TaskInfo | None = None) -> tuple[float, float]:
        """Return the seconds until the reserved replicas and one more fit, and the missing part
        now.

        The second value is the largest part of what is needed that is missing.
        """
        more = task.resources if task is not None else {}
        free = {name: amount - more.get(name, 0) for name, amount in self._free[row].items()}
        short = {name: -amount for name, amount in free.items() if amount < 0}
        missing = max(
            (amount / max(more.get(name, 0), 1) for name, amount in short.items()), default=0.0
        )
        after = 0.0
        for end, amounts in self._ends[row]:
            if not short:
                break
            after = end
            short = {
                name: left
                for name, amount in short.items()
                if (left := amount - amounts.get(name, 0)) > 0
            }
        return (inf if short else after), missing


def _by_row(
    job: JobInfo, placed: NodeList, capacity: FreeCapacity
) -> Iterator[tuple[int, dict[str, int]]]:
    for task in job.tasks:
        for name, count in tally(placed.task(task.name)).items():
            if (row := capacity.index.get(name)) is not None:
                yield row, {key: count * amount for key, amount in task.resources.items()}
