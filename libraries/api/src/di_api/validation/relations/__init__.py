"""Rules of a DIJob spec that relate fields to each other, for the library and for the policy.

Each rule is a row: the library's function, and the part of it that a rule of the policy
(`di_api.crd.policy`) can express. Everything that the policy refuses the library refuses too.

The library's functions, and those of `tasks`, `replicas` and `templates`, read the raw spec with
defaults and not a parsed one, so that a mistyped field elsewhere does not hide their errors. A rule
ignores parts with a wrong shape, because `shape` reports those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, items, mapping
from di_api.validation.relations.of_job import (
    OF_ARTIFACTS,
    OF_CHECKPOINT,
    OF_CODE,
    OF_SPEC,
    OF_TASKS,
)
from di_api.validation.relations.of_task import OF_TASK
from di_api.validation.relations.row import One, Whole
from di_api.validation.repeated import names_of, repeated_names
from di_api.validation.replicas import replica_errors
from di_api.validation.tasks import circular_tasks, task_names
from di_api.validation.templates.rules import coordinated_templates, unfit_pods


def broken_rules(spec: Mapping[str, Any], apart_from: Collection[int] = ()) -> Iterator[FieldError]:
    """Yield the errors of a raw spec with defaults, in the order of its fields; linear in its size.

    `apart_from` are indexes of tasks whose templates are not checked by themselves.
    """
    volumes = names_of(spec.get("volumes"))
    volume_names = {*volumes.values()}
    yield from repeated_names(volumes, "spec.volumes", "another volume of the job")
    whole = whole_of(spec)
    for row in (*OF_SPEC, *OF_TASKS, *OF_CHECKPOINT, *OF_ARTIFACTS, *OF_CODE):
        yield from row.errors(whole)
    for index, one in enumerate(ones_of(whole)):
        for each in OF_TASK:
            yield from each.errors(one)
        if index not in apart_from:
            yield from unfit_pods(f"{one.path}.template", one.task.get("template"), volume_names)
    yield from circular_tasks(whole.tasks)
    yield from replica_errors(mapping(spec.get("coordinated")).get("replicas"))
    for path, template in coordinated_templates(spec):
        yield from unfit_pods(path, template, volume_names)


def whole_of(spec: Mapping[str, Any]) -> Whole:
    """Return a raw spec with its tasks and their paths."""
    raw_tasks = enumerate(items(spec.get("tasks")))
    return Whole(spec, [(f"spec.tasks[{index}]", mapping(task)) for index, task in raw_tasks])


def ones_of(whole: Whole) -> Iterator[One]:
    """Yield its tasks, one by one."""
    known = task_names(whole.tasks)
    for path, task in whole.tasks:
        yield One(path, task, known)
