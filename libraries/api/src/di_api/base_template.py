"""`spec.template`: the base of the templates of all tasks, merged into them at admission.

A stored job has only the merged templates, so a template has one home, and everything that reads a
job is the same with and without a base.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_TASKS
from di_api.template_patch import MAX_DEPTH, MAX_SIZE, fault_of_patch, patched

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
    f"each template may have {MAX_SIZE} characters in {MAX_DEPTH} levels"
)
_NO_WEBHOOK: Final = (
    "is merged into the templates of tasks by the webhook, which has not done it: it must be "
    "installed, and run; or submit the job by di submit, which merges by itself"
)
_UNIQUE: Final = ("containers", "initContainers", "volumes")
"""Lists of a pod in which a name may be used once."""


def with_base(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec of any shape with its base merged into the tasks; the same without a base.

    A spec whose base cannot be merged keeps it, and no stored job may have one.
    """
    base, tasks = spec.get(BASE), spec.get("tasks")
    if BASE not in spec or _fault(base, tasks):
        return spec
    others = {field: value for field, value in spec.items() if field not in (BASE, "tasks")}
    # Null in the base removes nothing, so it goes.
    clean = None if base is None else patched({}, base)
    return {**others, "tasks": [_merged(clean, task) for task in items(tasks)]}


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


def fault_of_base(spec: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path and the error of a base that was not merged."""
    return _fault(spec.get(BASE), spec.get("tasks")) or (f"spec.{BASE}", _NO_WEBHOOK)


def _fault(base: object, tasks: object) -> tuple[str, str] | None:
    """Return the path and the error for which a base cannot be merged; None if it can be."""
    if not isinstance(tasks, list):
        return (
            f"spec.{BASE}",
            "is a base of the templates of tasks, and the job has no list of tasks",
        )
    if base is None:
        # A null field counts as absent.
        return None
    if not 0 < len(tasks) <= MAX_TASKS:
        return "spec.tasks", f"has {len(tasks)} tasks, and a job has 1 to {MAX_TASKS}"
    templates = (
        (f"spec.tasks[{index}].{BASE}", mapping(task).get(BASE)) for index, task in enumerate(tasks)
    )
    faults = (_fault_of_template(*each) for each in ((f"spec.{BASE}", base), *templates))
    return next(filter(None, faults), None)


def _fault_of_template(path: str, template: object) -> tuple[str, str] | None:
    if template is None:
        return None
    if not isinstance(template, Mapping):
        return path, "must be an object"
    if fault := fault_of_patch(template):
        return path, f"{fault} in a job with spec.{BASE}"
    repeated = _repeated(template)
    return (path, repeated) if repeated else None


def _repeated(template: Mapping[str, Any]) -> str:
    """Return the error for a list with a name twice, which merging by name would hide."""
    spec = mapping(template.get("spec"))
    for field in _UNIQUE:
        seen = set()
        for each in items(spec.get(field)):
            name = mapping(each).get("name")
            if isinstance(name, str) and name in seen:
                return f"has two {field} with the name {name}"
            if isinstance(name, str):
                seen.add(name)
    return ""


def _merged(base: object, task: object) -> object:
    if base is None or not isinstance(task, Mapping):
        return task
    own = task.get(BASE)
    return {**task, BASE: base if own is None else patched(base, own)}
