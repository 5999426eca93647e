"""The pods that have succeeded, by task and local index: `status.completedIndexes`.

The status keeps them, as batch/v1 Job does in its field of that name. A pod that was evicted or
deleted after it completed is therefore not run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from di_api.field_error import mapping
from di_api.indexes.ranges import read_ranges, write_ranges
from di_api.indexes.replicas import indexes
from di_api.spec import JobSpec, Task

Completed: TypeAlias = Mapping[str, frozenset[int]]
"""Local indexes by task; tasks without completed pods are left out."""


def read_completed(value: object) -> Completed:
    """Read the field, of any shape; what cannot be read counts as absent."""
    found = {
        str(task): frozenset(read_ranges(text))
        for task, text in mapping(value).items()
        if isinstance(text, str)
    }
    return {task: done for task, done in found.items() if done}


def dump_completed(completed: Completed) -> dict[str, str]:
    """Return the value of the field: by task its indexes as compressed ranges, such as `0-3,7`."""
    return {task: write_ranges(done) for task, done in completed.items() if done}


def asked_for(completed: Completed, spec: JobSpec | None) -> Completed:
    """Return the indexes that the spec still has a replica for; all of them without a spec.

    The spec counts as the user wrote it: a replica without a node or quota for now keeps its
    index. A replica that was scaled away loses its index, and runs again if the job is scaled up
    again.
    """
    if spec is None or not completed:
        return completed
    found = {
        task.name: completed.get(task.name, frozenset()) & _wanted(task, spec)
        for task in spec.tasks
    }
    return {task: done for task, done in found.items() if done}


def _wanted(task: Task, spec: JobSpec) -> frozenset[int]:
    most = max(task.replicas, task.max_replicas or 0) if spec.preemptible else task.replicas
    size = task.pods_per_replica
    return frozenset(
        replica * size + place for replica in indexes(most, task.vacant) for place in range(size)
    )
