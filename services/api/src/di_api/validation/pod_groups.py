"""Replicas of several pods: what goes with them, and the template of their leaders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.field_error import FieldError, items, mapping
from di_api.template_patch import fault_of_patch, patched
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks

_OF_TEMPLATE: Final = re.compile(
    r"spec\.tasks\[(?P<index>[0-9]{1,9})\]\.template(?P<below>.*)", re.S
)
_PATCH: Final = "leaderTemplatePatch"


def shared_pod_names(tasks: Tasks) -> Iterator[FieldError]:
    """Tasks named as a replica of another: `a-1-0` is a pod of the task `a`, and of `a-1`."""
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
    """A template of leaders where every pod is one."""
    patch = task.get(_PATCH)
    if patch is not None and pods_per_replica(task) == 1:
        message = "needs podsPerReplica above 1; change the template of the task"
        yield FieldError(f"{path}.{_PATCH}", patch, message)


def leader_errors(
    spec: Mapping[str, Any],
    known: Iterable[FieldError],
    judge: Callable[[dict[str, Any]], Iterable[FieldError]],
) -> Iterator[FieldError]:
    """What is wrong with the templates of leaders, and not with those of their tasks.

    `judge` finds what is wrong with a spec, `known` is what it found with this one. Items of lists
    are counted as in the template that the patch makes.
    """
    tasks, leaders = [*items(spec.get("tasks"))], set[int]()
    for index, task in enumerate(map(mapping, tasks)):
        patch, template = task.get(_PATCH), task.get("template")
        if not isinstance(patch, Mapping):
            continue
        if fault := fault_of_patch(patch):
            yield FieldError(f"spec.tasks[{index}].{_PATCH}", patch, fault)
        elif isinstance(template, Mapping):
            leaders.add(index)
            tasks[index] = {**task, "template": patched(template, patch)}
    if not leaders:
        return
    before = {(error.path, error.message) for error in known}
    for error in judge({**spec, "tasks": tasks}):
        found = _OF_TEMPLATE.fullmatch(error.path)
        if found is None or int(found["index"]) not in leaders:
            continue
        if (error.path, error.message) not in before:
            yield replace(error, path=f"spec.tasks[{found['index']}].{_PATCH}{found['below']}")
