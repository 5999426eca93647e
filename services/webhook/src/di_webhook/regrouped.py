"""Warnings about changes of replicas that replace all pods of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_TASKS
from di_api.validation import scaling_warning

Object = Mapping[str, Any]


def regrouped(job: Object, before: Object | None) -> list[str]:
    """Return a warning for each process group of fixed size that gets another size.

    Args:
        job: of any shape, as it is written.
        before: as it was; None: the job is new, and has no group yet.
    """
    spec, old = mapping(job.get("spec")), mapping(mapping(before).get("spec"))
    tasks, old_tasks = items(spec.get("tasks"))[:MAX_TASKS], items(old.get("tasks"))
    found: list[str] = []
    for index, (raw, was) in enumerate(zip(tasks, old_tasks, strict=False)):
        task = mapping(raw)
        if (
            task.get("replicas", 1) == mapping(was).get("replicas", 1)
            or spec.get("suspend") is True
        ):
            continue
        if (warning := scaling_warning(spec, task)) is not None:
            found.append(f"spec.tasks[{index}].replicas: {warning}")
    return found
