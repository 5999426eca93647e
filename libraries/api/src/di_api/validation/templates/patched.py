"""Validation of templates that result from patches, by the same rules as any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from di_api.field_error import FieldError, items, mapping
from di_api.template_patch import fault_of_patch, patched

_OF_TEMPLATE: Final = re.compile(
    r"spec\.tasks\[(?P<index>[0-9]{1,9})\]\.template(?P<below>.*)", re.S
)
_LEADER: Final = "leaderTemplatePatch"
_ELASTIC: Final = "elastic.templatePatch"

_Templates: TypeAlias = dict[int, Mapping[str, Any]]
"""Templates by the index of the task."""


def patched_errors(
    spec: Mapping[str, Any],
    known: Iterable[FieldError],
    judge: Callable[[dict[str, Any], Collection[int]], Iterable[FieldError]],
    apart_from: Collection[int] = (),
) -> Iterator[FieldError]:
    """Yield the errors in patched templates that the templates of their tasks do not have.

    Indexes of list items are those in the patched template.

    Args:
        spec: raw, with defaults.
        known: errors already found in it.
        judge: yields the errors of a spec, apart from the templates of some tasks.
        apart_from: tasks whose templates and patches are not checked.
    """
    tasks = [*items(spec.get("tasks"))]
    plain = {
        index: template
        for index, task in enumerate(map(mapping, tasks))
        if index not in apart_from and isinstance(template := task.get("template"), Mapping)
    }
    leaders = yield from _made(_LEADER, tasks, plain)
    elastic = yield from _made(_ELASTIC, tasks, plain)
    both = {
        index: patched(leaders[index], _patch(_ELASTIC, tasks[index]))
        for index in leaders.keys() & elastic.keys()
    }
    before = {(error.path, error.message) for error in known}
    for where, templates in ((_LEADER, leaders), (_ELASTIC, elastic), (_ELASTIC, both)):
        if not templates:
            continue
        others = {index for index in range(len(tasks)) if index not in templates}
        for error in judge({**spec, "tasks": _with(tasks, templates)}, others):
            found = _OF_TEMPLATE.fullmatch(error.path)
            if found is None or int(found["index"]) not in templates:
                continue
            if (error.path, error.message) not in before:
                before.add((error.path, error.message))
                yield replace(error, path=f"spec.tasks[{found['index']}].{where}{found['below']}")


def _made(
    where: str, tasks: list[Any], templates: _Templates
) -> Generator[FieldError, None, _Templates]:
    """Yield the errors for invalid patches; return the patched templates."""
    made: _Templates = {}
    for index, task in enumerate(tasks):
        patch = _patch(where, task)
        if not isinstance(patch, Mapping):
            continue
        if fault := fault_of_patch(patch):
            yield FieldError(f"spec.tasks[{index}].{where}", patch, fault)
        elif index in templates:
            made[index] = patched(templates[index], patch)
    return made


def _patch(where: str, task: object) -> object:
    value = task
    for key in where.split("."):
        value = mapping(value).get(key)
    return value


def _with(tasks: list[Any], templates: _Templates) -> list[Any]:
    return [
        {**task, "template": templates[index]} if index in templates else task
        for index, task in enumerate(tasks)
    ]
