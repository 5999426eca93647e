"""Where a task may not leave indexes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, items, mapping
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks


def vacant_of_allocator(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Tasks of a preemptible job, whose nodes the allocator gives in the order of replicas."""
    if spec.get("preemptible") is not True:
        return
    for path, task in tasks:
        if vacant := items(task.get("vacant")):
            message = "the allocator chooses which replicas a preemptible job has"
            yield FieldError(f"{path}.vacant", vacant, message)


def vacant_members(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """A process group whose members are told their ranks by their indexes."""
    group, vacant = task.get("processGroup"), items(task.get("vacant"))
    if not vacant or not isinstance(group, Mapping) or pods_per_replica(task) > 1:
        return
    if mapping(group).get("elastic") is not True:
        message = "the ranks of a process group that is not elastic are its indexes, with no gap"
        yield FieldError(f"{path}.vacant", vacant, message)


def vacant_core(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Indexes of the replicas that a task with an elastic tier is to have in any case."""
    least, vacant = task.get("minReplicas"), items(task.get("vacant"))
    if not isinstance(task.get("elastic"), Mapping) or not isinstance(least, int):
        return
    if any(isinstance(index, int) and index < least for index in vacant):
        message = (
            f"the core of a task with an elastic tier has the indexes below {least}, with no gap"
        )
        yield FieldError(f"{path}.vacant", vacant, message)
