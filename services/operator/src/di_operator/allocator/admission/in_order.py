"""Admission in order, all or nothing: the common part of `fit` and `binpack`.

Waiting jobs come by priority, then age; a sweep counts as one of them. A job gets the replicas it
asks for, or as many as fit, but at least every task's minimum. If that does not fit, it gets
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from di_operator.allocator.admission.backfill import Backfill, Reservation, reserve_for
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo, least
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.sharing.quotas import Allowance


class ChooseNode(Protocol):
    """Function that picks the node of the next replica among those where it fits (`slots` > 0)."""

    def __call__(self, capacity: FreeCapacity, task: TaskInfo, slots: Sequence[int], /) -> int:
        """Return the row of the node."""


def tightest(capacity: FreeCapacity, task: TaskInfo, slots: Sequence[int]) -> int:
    """Return the node where the fewest further replicas fit; the first of equals."""
    return min((free, row) for row, free in enumerate(slots) if free)[1]


def admit_waiting(
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    capacity: FreeCapacity,
    answer: dict[str, NodeList],
    allowance: Allowance,
    *,
    choose_node: ChooseNode,
    backfill: Backfill,
) -> set[int]:
    """Start jobs that have nothing in `answer` yet and fit into the free capacity, in order.

    `allowance` counts what is in `answer`. A job that waits for its quota holds no other job back.
    What is reserved is taken from `capacity`. Returns the rows of nodes that are closed to other
    jobs, because a job that must not be overtaken waits for them.
    """
    kept: Reservation | None = None
    # Nodes for which a job waits that must not be overtaken.
    closed: set[int] = set()
    for job in in_order(jobs):
        if answer[job.key] or (within := allowance.within(job)) is None:
            continue
        if closed and any(not closed.isdisjoint(capacity.rows(task)) for task in job.tasks):
            continue
        lifted = kept if kept is not None and kept.outlasts(job) else None
        if lifted is not None:
            lifted.book(capacity, -1)
        answer[job.key] = placed = admit_one(capacity, within, choose_node)
        if lifted is not None:
            lifted.book(capacity)
        allowance.take(job, placed)
        is_first = backfill is not Backfill.ALL and kept is None and not placed
        if not is_first or not _could_fit(job, nodes, choose_node):
            continue
        if backfill is Backfill.NONE:
            closed.update(*(capacity.rows(task) for task in job.tasks))
            continue
        running = ((jobs[key], found) for key, found in answer.items() if found)
        kept = reserve_for(within, capacity, nodes, running)
        if kept is not None:
            kept.book(capacity)
    return closed


def in_order(jobs: Mapping[str, JobInfo]) -> list[JobInfo]:
    """Return the jobs by priority, then turn, then age, then key, independent of the order of a
    dict.

    A sweep has one place among the jobs of a priority, however many trials: its first trial comes
    by age, its second one after all other jobs, and so on. All trials of different sweeps with the
    same number come together, by age.
    """
    by_age = sorted(jobs.values(), key=lambda job: (-job.priority, -job.age, job.key))
    turns = _turns(by_age)
    return sorted(by_age, key=lambda job: (-job.priority, turns.get(job.key, 0)))


def _turns(by_age: Iterable[JobInfo]) -> dict[str, int]:
    """Return the number of older trials of the same sweep, by the key of a trial."""
    counts: Counter[tuple[int, str]] = Counter()
    found: dict[str, int] = {}
    for job in by_age:
        if job.sweep:
            found[job.key] = counts[job.priority, job.sweep]
            counts[job.priority, job.sweep] += 1
    return found


def admit_one(capacity: FreeCapacity, job: JobInfo, choose_node: ChooseNode) -> NodeList:
    """Place as much of a job as it asks for and fits, and take that capacity."""
    rows: dict[str, list[int]] = {task.name: [] for task in job.tasks}
    for task in job.tasks:
        # The minimum of all tasks comes first, so that no task's request takes another's.
        _grow(capacity, task, rows[task.name], least(job, task), choose_node)
    if any(len(rows[task.name]) < least(job, task) for task in job.tasks):
        for task in job.tasks:
            for row in rows[task.name]:
                capacity.take(task, row, -1)
        return WAIT
    for task in job.tasks:
        _grow(capacity, task, rows[task.name], task.replicas, choose_node)
    return NodeList.of(
        {
            name: tuple(capacity.nodes[row].name for row in sorted(found))
            for name, found in rows.items()
        }
    )


def _grow(
    capacity: FreeCapacity,
    task: TaskInfo,
    rows: list[int],
    count: int,
    choose_node: ChooseNode,
) -> None:
    while len(rows) < count:
        begun = len(rows)
        while len(rows) < begun + task.unit:
            slots = capacity.slots(task)
            if not any(slots):
                give_back(capacity, task, rows, begun)
                return
            row = choose_node(capacity, task, slots)
            capacity.take(task, row)
            rows.append(row)


def give_back(capacity: FreeCapacity, task: TaskInfo, rows: list[int], begun: int) -> None:
    """Give back the rows of a unit that does not fit as a whole."""
    for row in rows[begun:]:
        capacity.take(task, row, -1)
    del rows[begun:]


def _could_fit(job: JobInfo, nodes: Mapping[str, NodeInfo], choose_node: ChooseNode) -> bool:
    return bool(admit_one(FreeCapacity(nodes), job, choose_node))
