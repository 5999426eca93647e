"""The pods that have succeeded, by task and local index: `status.completedIndexes`.

The status keeps them, as batch/v1 Job does in its field of that name. A pod that was evicted or
deleted after it completed is therefore not run again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from di_api.field_error import mapping
from di_api.replica_indexes import indexes
from di_api.spec import JobSpec, Task

Completed: TypeAlias = Mapping[str, frozenset[int]]
"""Local indexes by task; tasks without completed pods are left out."""

# No job has an index with more digits; a longer number would exhaust the operator's memory.
_RANGE: Final = re.compile("([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_completed(value: object) -> Completed:
    """Read the field, of any shape; what cannot be read counts as absent."""
    found = {
        str(task): frozenset(_parsed(text))
        for task, text in mapping(value).items()
        if isinstance(text, str)
    }
    return {task: done for task, done in found.items() if done}


def dump_completed(completed: Completed) -> dict[str, str]:
    """Return the value of the field: by task its indexes as compressed ranges, such as `0-3,7`."""
    return {task: ",".join(_ranges(done)) for task, done in completed.items() if done}


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


def _parsed(text: str) -> Iterator[int]:
    """Yield the indexes in a text, each once, even if the text repeats them."""
    matches = filter(None, map(_RANGE.fullmatch, text.split(",")))
    after = 0
    for first, last in sorted((int(each[1]), int(each[2] or each[1])) for each in matches):
        yield from range(max(first, after), last + 1)
        after = max(after, last + 1)


def _ranges(done: Iterable[int]) -> Iterator[str]:
    begun = last = None
    for index in sorted(done):
        if begun is None or last is None:
            begun = last = index
        elif index == last + 1:
            last = index
        else:
            yield _range(begun, last)
            begun = last = index
    if begun is not None and last is not None:
        yield _range(begun, last)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
