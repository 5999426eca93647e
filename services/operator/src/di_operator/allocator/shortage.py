"""Why a job cannot be placed: which resource, on which nodes, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from di_operator.allocator.admit import admit_one
from di_operator.allocator.job import JobInfo, TaskInfo
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.resources import in_units
from di_operator.allocator.room import Counts, Room

# Nodes named in a message.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A job that no cluster of these nodes could run, however empty."""

    task: str
    message: str


def find_shortage(job: JobInfo, nodes: Mapping[str, NodeInfo]) -> Shortage | None:
    """Return why the job's minimum could not run even if all other jobs were gone; None: it could.

    Only what is not the allocator's to give counts as taken: pods of others.
    """
    room = Room(nodes, [job])
    least = [(task, task.minimum if job.preemptible else task.replicas) for task in job.tasks]
    for task, count in least:
        if not count:
            continue
        places = int(room.slots(task).sum())
        if places < count:
            return Shortage(task=task.name, message=_message(room, task, count, places))
    if admit_one(room, job, lambda _room, _task, slots: int(slots.argmax())):
        return None
    names = " and ".join(task.name for task, count in least if count)
    return Shortage(task=job.tasks[0].name, message=f"{names} fit one by one, but not together")


def _message(room: Room, task: TaskInfo, count: int, places: int) -> str:
    admitting = np.array([task.constraints.admit(node) for node in room.nodes], dtype=bool)
    replicas = f"{count} replica{'s' if count != 1 else ''}"
    if not admitting.any():
        return (
            f"task {task.name} needs {replicas}; none of {len(room.nodes)} nodes admits its pods"
            " (node selector, affinity or taints)"
        )
    missing = np.where(admitting[:, None], room.request(task) - room.free, np.iinfo(np.int64).max)
    short = _short_by(room, missing)
    closest = ", ".join(_describe(room, missing, row) for row in short[:_NAMED])
    return (
        f"task {task.name} needs {replicas}, there is room for {places} on"
        f" {int(admitting.sum())} of {len(room.nodes)} nodes; closest to one more: {closest}"
    )


def _short_by(room: Room, missing: Counts) -> list[int]:
    """Rows by how little of one replica is missing, as a share of the node."""
    shares = np.clip(missing, 0, None) / np.maximum(room.total, 1)
    return [int(row) for row in np.argsort(shares.max(axis=1), kind="stable")]


def _describe(room: Room, missing: Counts, row: int) -> str:
    lacks = [
        f"{in_units(int(missing[row, column]))} {name}"
        for column, name in enumerate(room.resources)
        if missing[row, column] > 0
    ]
    node = room.nodes[row].name
    return f"{node} lacks {' and '.join(lacks)}" if lacks else f"{node} has room"
