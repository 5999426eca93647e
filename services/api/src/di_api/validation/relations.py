"""Rules of a DIJob spec that relate fields to each other.

They and those of `tasks`, `replicas` and `templates` read the raw spec (defaults applied), not a
loaded one, so that a mistyped field elsewhere does not hide them: all errors come at once.
Wherever a shape is wrong a rule looks away; `shape` reports that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.validation.repeated import names_of, repeated_names
from di_api.validation.replicas import replica_errors
from di_api.validation.size import total_errors
from di_api.validation.tasks import (
    circular_tasks,
    replicas_out_of_bounds,
    reused_task_names,
    reused_task_types,
    wrong_dependencies,
)
from di_api.validation.templates import coordinated_templates, unfit_pods


def broken_rules(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors of a raw spec, defaults applied, in the order of its fields; linear in its size."""
    volumes = names_of(spec.get("volumes"))
    volume_names = {*volumes.values()}
    yield from repeated_names(volumes, "spec.volumes", "another volume of the job")
    yield from _kind_of_job(spec)
    raw_tasks = enumerate(items(spec.get("tasks")))
    tasks = [(f"spec.tasks[{index}]", mapping(task)) for index, task in raw_tasks]
    yield from reused_task_types(tasks)
    yield from reused_task_names(tasks)
    yield from total_errors(spec)
    known = {name for _, task in tasks if isinstance(name := task.get("name"), str)}
    for path, task in tasks:
        yield from replicas_out_of_bounds(path, task)
        yield from wrong_dependencies(path, task, known)
        yield from unfit_pods(f"{path}.template", task.get("template"), volume_names)
    yield from circular_tasks(tasks)
    yield from replica_errors(mapping(spec.get("coordinated")).get("replicas"))
    for path, template in coordinated_templates(spec):
        yield from unfit_pods(path, template, volume_names)


def _kind_of_job(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """A job has tasks or a coordinator; what only tasks can have is refused beside the latter."""
    tasks, coordinated = spec.get("tasks"), spec.get("coordinated")
    if tasks is None and coordinated is None:
        yield FieldError("spec.tasks", ABSENT, "is required, unless the job has a coordinator")
    if coordinated is None:
        return
    if tasks is not None:
        yield FieldError("spec.tasks", tasks, "a job has tasks or a coordinator, not both")
    if spec.get("preemptible") is True:
        yield FieldError("spec.preemptible", True, "the allocator shares nodes among tasks only")
    if mapping(spec.get("scheduling")).get("gang") is True:
        yield FieldError("spec.scheduling.gang", True, "the pods of a coordinator come one by one")
