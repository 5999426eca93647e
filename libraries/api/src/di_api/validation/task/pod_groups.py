"""Rules about replicas of several pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks

_PATCH: Final = "leaderTemplatePatch"


def shared_pod_names(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for tasks named like a replica of another: `a-1-0` is a pod of the task `a`,
    and of `a-1`.
    """
    groups = {
        name: path
        for path, task in tasks
        if pods_per_replica(task) > 1 and isinstance(name := task.get("name"), str)
    }
    for path, task in tasks:
        name = task.get("name")
        if not isinstance(name, str) or name in groups:
            continue
        outer, _, replica = name.rpartition("-")
        if outer in groups and replica.isdecimal():
            message = f"the pods of {groups[outer]} are named so; choose another name"
            yield FieldError(f"{path}.name", name, message)


def lonely_leader(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a leader template if every pod is a leader."""
    patch = task.get(_PATCH)
    if patch is not None and pods_per_replica(task) == 1:
        message = "needs podsPerReplica above 1; change the template of the task"
        yield FieldError(f"{path}.{_PATCH}", patch, message)
