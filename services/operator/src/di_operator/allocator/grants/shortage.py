"""The reason why a job cannot be placed: which resource, on which nodes, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

from di_operator.allocator.admission.in_order import admit_one
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo, TaskInfo
from di_operator.allocator.model.resources import in_units

# Nodes named in a message.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """The message for a job that these nodes could not run even without any other job."""

    task: str
    message: str


def find_shortage(job: JobInfo, capacity: FreeCapacity) -> Shortage | None:
    """Return why the job's minimum could not run even without all other jobs; None: it could.

    `capacity` is what pods of others leave free; it is unchanged on return.
    """
    least = [(task, task.minimum if job.preemptible else task.replicas) for task in job.tasks]
    for task, count in least:
        if not count:
            continue
        places = sum(capacity.slots(task))
        if places < count:
            return Shortage(task=task.name, message=_message(capacity, task, count, places))
    wanted = [task for task, count in least if count]
    if len(wanted) == 1 and not job.gang:
        return None
    placed = admit_one(capacity, job, lambda _capacity, _task, slots: slots.index(max(slots)))
    for task in job.tasks:
        for node in placed.task(task.name):
            capacity.take(task, capacity.index[node], -1)
    if placed:
        return None
    names = " and ".join(task.name for task in wanted)
    return Shortage(task=job.tasks[0].name, message=f"{names} fit one by one, but not together")


def _message(capacity: FreeCapacity, task: TaskInfo, count: int, places: int) -> str:
    admitting = [row for row, node in enumerate(capacity.nodes) if task.constraints.admit(node)]
    replicas = f"{count} replica{'s' if count != 1 else ''}"
    if not admitting:
        return (
            f"task {task.name} needs {replicas}; none of {len(capacity.nodes)} nodes admits its"
            " pods (node selector, affinity or taints)"
        )
    closest = sorted(admitting, key=lambda row: (_share_missing(capacity, task, row), row))
    named = ", ".join(_describe(capacity, task, row) for row in closest[:_NAMED])
    return (
        f"task {task.name} needs {replicas}, there is room for {places} on"
        f" {len(admitting)} of {len(capacity.nodes)} nodes; closest to one more: {named}"
    )


def _missing(capacity: FreeCapacity, task: TaskInfo, row: int) -> dict[str, int]:
    """Return what a node lacks for one replica."""
    free = capacity.free[row]
    return {
        name: amount - free.get(name, 0)
        for name, amount in task.resources.items()
        if amount > free.get(name, 0)
    }


def _share_missing(capacity: FreeCapacity, task: TaskInfo, row: int) -> float:
    """Return the largest part of a required amount that the node lacks."""
    total = capacity.nodes[row].total
    return max(
        (
            amount / max(total.get(name, 0), amount)
            for name, amount in _missing(capacity, task, row).items()
        ),
        default=0.0,
    )


def _describe(capacity: FreeCapacity, task: TaskInfo, row: int) -> str:
    lacks = " and ".join(
        f"{in_units(amount)} {name}" for name, amount in _missing(capacity, task, row).items()
    )
    return f"{capacity.nodes[row].name} {f'lacks {lacks}' if lacks else 'has room'}"
