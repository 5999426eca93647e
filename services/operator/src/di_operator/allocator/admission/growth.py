"""Growth of running jobs towards the replicas that they ask for, under `fit` and `binpack`.

A job may have started with fewer replicas, and a user may change `replicas` while it runs.
Capacity that is free beside the waiting jobs goes to running jobs that ask for more, on the nodes
where they are. Learners in a group of fixed size restart for that. So they get all that they ask
for, or at least twice what they have.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from di_operator.allocator.admission.in_order import ChooseNode, give_back, in_order
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.sharing.quotas import Allowance

ENOUGH: Final = 2
"""Factor by which a group of fixed size has to grow, because growth costs a restart."""


def at_most_asked(
    jobs: Mapping[str, JobInfo], previous: Mapping[str, NodeList]
) -> dict[str, NodeList]:
    """Return the nodes of jobs, without replicas of preemptible jobs beyond their requested
    number.
    """
    return {
        key: _at_most_asked(jobs[key], had) if key in jobs else had for key, had in previous.items()
    }


def _at_most_asked(job: JobInfo, had: NodeList) -> NodeList:
    if not job.preemptible or all(len(had.task(t.name)) <= t.replicas for t in job.tasks):
        return had
    asked = {task.name: task.replicas for task in job.tasks}
    return NodeList.of({name: nodes[: asked.get(name)] for name, nodes in had.tasks})


def grow_running(
    jobs: Mapping[str, JobInfo],
    capacity: FreeCapacity,
    answer: dict[str, NodeList],
    allowance: Allowance,
    *,
    choose_node: ChooseNode,
    closed: Set[int],
) -> None:
    """Grow preemptible jobs in `answer` to the size they ask for, in order, while capacity is
    free.

    `capacity` is what is free beside the answer, and `allowance` counts what is in it. `closed`
    are rows of nodes that are reserved for a waiting job.
    """
    for job in in_order(jobs):
        if not job.preemptible or not (had := answer[job.key]):
            continue
        placed = {task.name: had.task(task.name) for task in job.tasks}
        for task in job.tasks:
            asked = min(task.replicas, task.maximum)
            missing = asked - len(placed[task.name])
            if missing <= 0 or not closed.isdisjoint(capacity.rows(task)):
                continue
            rows = _add(job, task, missing, capacity, (allowance, choose_node))
            has = len(placed[task.name])
            if not task.comes_and_goes and has + len(rows) < min(asked, ENOUGH * has):
                allowance.take_replicas(job, task, -len(rows))
                give_back(capacity, task, rows, 0)
            placed[task.name] += tuple(capacity.nodes[row].name for row in rows)
        answer[job.key] = NodeList.of(placed)


def _add(
    job: JobInfo,
    task: TaskInfo,
    missing: int,
    capacity: FreeCapacity,
    bounds: tuple[Allowance, ChooseNode],
) -> list[int]:
    """Take free capacity for more replicas of a task, in whole units; returns their rows."""
    allowance, choose_node = bounds
    rows: list[int] = []
    while len(rows) < missing and allowance.has_room(job, task, task.unit):
        begun = len(rows)
        for _ in range(task.unit):
            slots = capacity.slots(task)
            if not any(slots):
                give_back(capacity, task, rows, begun)
                return rows
            row = choose_node(capacity, task, slots)
            capacity.take(task, row)
            rows.append(row)
        allowance.take_replicas(job, task, task.unit)
    return rows
