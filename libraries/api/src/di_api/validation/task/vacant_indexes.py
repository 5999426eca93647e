"""Rules about vacant indexes of replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, items, mapping
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks


def vacant_of_allocator(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for tasks of a preemptible job, whose replicas get nodes from the allocator
    in order.
    """
    if spec.get("preemptible") is not True:
        return
    for path, task in tasks:
        if vacant := items(task.get("vacant")):
            message = "the allocator chooses which replicas a preemptible job has"
            yield FieldError(f"{path}.vacant", vacant, message)


def vacant_members(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a process group whose ranks are derived from indexes."""
    group, vacant = task.get("processGroup"), items(task.get("vacant"))
    if not vacant or not isinstance(group, Mapping) or pods_per_replica(task) > 1:
        return
    if mapping(group).get("elastic") is not True:
        message = "the ranks of a process group that is not elastic are its indexes, with no gap"
        yield FieldError(f"{path}.vacant", vacant, message)


def vacant_core(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for vacant indexes below the minimum of a task with an elastic tier."""
    least, vacant = task.get("minReplicas"), items(task.get("vacant"))
    if not isinstance(task.get("elastic"), Mapping) or not isinstance(least, int):
        return
    if any(isinstance(index, int) and index < least for index in vacant):
        message = (
            f"the core of a task with an elastic tier has the indexes below {least}, with no gap"
        )
        yield FieldError(f"{path}.vacant", vacant, message)
