"""Limit jobs with a queue to the replicas that their queue has admitted."""

from __future__ import annotations

from dataclasses import replace

from di_api.field_error import mapping
from di_api.spec import JobSpec, Task


def within_admitted(spec: JobSpec, admitted: object) -> JobSpec:
    """Return the spec with no more replicas of each task than `status.admitted` has. The spec is
    returned as it is where that field cannot be read.
    """
    counts = mapping(admitted)
    if not spec.preemptible or not counts:
        return spec
    return replace(spec, tasks=tuple(_within(task, counts.get(task.name)) for task in spec.tasks))


def _within(task: Task, most: object) -> Task:
    if not isinstance(most, int) or most < 1:
        return task
    highest = min(task.max_replicas or task.replicas, max(most, task.min_replicas or 1))
    return replace(task, replicas=min(task.replicas, highest), max_replicas=highest)
