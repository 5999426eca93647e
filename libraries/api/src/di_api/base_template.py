"""`spec.template`: the base of the templates of all tasks, merged into them at admission.

A stored job has only the merged templates, so a template has one home, and everything that reads a
job is the same with and without a base.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_TASKS
from di_api.template_patch import fault_of_patch, patched

BASE: Final = "template"
"""Name of the field in the spec, and in a task."""
ABOUT: Final = (
    "Base of the templates of all tasks, as core/v1 PodTemplateSpec. The webhook merges the "
    "template of each task into it, a JSON merge patch with containers, volumes and variables "
    "merged by name, and removes the base. A stored job never has it."
)
NOT_MERGED: Final = (
    "is merged into the templates of tasks by the webhook, which has not done it: the webhook must "
    f"be installed, the job must have 1 to {MAX_TASKS} tasks and no coordinator, and the base and "
    "each template may have 16384 characters"
)


def with_base(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec of any shape with its base merged into the tasks; the same without a base.

    A spec whose base cannot be merged keeps it, and no stored job may have one.
    """
    base, tasks = spec.get(BASE), spec.get("tasks")
    if BASE not in spec or not _can_merge(base, tasks):
        return spec
    others = {field: value for field, value in spec.items() if field not in (BASE, "tasks")}
    return {**others, "tasks": [_merged(base, task) for task in items(tasks)]}


def base_patch(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that turn a job's spec into `with_base` of it."""
    spec = mapping(job.get("spec"))
    merged = with_base(spec)
    if merged is spec:
        return []
    templates = [
        {"op": "add", "path": f"/spec/tasks/{index}/{BASE}", "value": task[BASE]}
        for index, task in enumerate(merged["tasks"])
        if isinstance(task, Mapping)
    ]
    return [*templates, {"op": "remove", "path": f"/spec/{BASE}"}]


def _can_merge(base: object, tasks: object) -> bool:
    if base is None:
        # A null field counts as absent.
        return isinstance(tasks, list)
    if not isinstance(base, Mapping) or not isinstance(tasks, list):
        return False
    if not 0 < len(tasks) <= MAX_TASKS or fault_of_patch(base):
        return False
    templates = (mapping(task).get(BASE) for task in tasks)
    return all(
        each is None or (isinstance(each, Mapping) and not fault_of_patch(each))
        for each in templates
    )


def _merged(base: object, task: object) -> object:
    if base is None or not isinstance(task, Mapping):
        return task
    own = task.get(BASE)
    return {**task, BASE: base if own is None else patched(base, own)}
