"""Values of task fields that survive a change that leaves them out, because other clients set them.

A list in a custom resource is one value to kubectl and to the API server. Applying a file again
writes all of its tasks, without the changes by a scaler, the program or the allocator.

| omitted field | is kept |
|---|---|
| `replicas` | always, within the bounds of the task |
| other mutable fields | if the task is written from a file that never had it |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from di_api import strict_json
from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_SPEC_VALUES, MAX_TASKS
from di_api.spec.declared import fields_of
from di_api.spec.kinds import UNLIMITED
from di_api.spec.task import Task
from di_webhook.ownership import are_applied

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply` with the last applied file."""
_REPLICAS: Final = "replicas"
_OF_OTHERS: Final = frozenset({_REPLICAS, "vacant", "restartedAt"})
"""Fields that programs write and files rarely contain."""

Object = Mapping[str, Any]


def kept_fields(
    job: Object, before: Object, *, is_replaced: bool
) -> Iterator[tuple[int, str, object]]:
    """Yield the fields that tasks keep: index of the task, name of the field, and value.

    Args:
        job: of any shape, as a client writes it, without defaults.
        before: the existing job.
        is_replaced: whether the client wrote a file over it.
    """
    old_tasks = _by_name(before)
    missing = [
        (index, task, old, fields)
        for index, task in enumerate(_tasks(job))
        # What has no name is no task, and has no fields to keep.
        if _name(task)
        and (old := old_tasks.get(_name(task))) is not None
        and (fields := _left_out(task, old))
    ]
    if not missing:
        return
    files = _Files(job, before, is_whole=is_replaced or are_applied(job))
    for index, task, old, fields in missing:
        is_from_file = files.have_written(task)
        for field in fields:
            if field == _REPLICAS:
                yield index, field, _within_bounds(old[field], task)
            elif is_from_file and not files.have_dropped(task, field):
                yield index, field, old[field]


def kept_warnings(job: Object, before: Object) -> Iterator[str]:
    """Yield a warning for each bound or limit that a server-side apply keeps.

    The request does not contain the previously applied file, so a field that was removed from the
    file stays.
    """
    if not are_applied(job):
        return
    for index, field, value in kept_fields(job, before, is_replaced=False):
        if field not in _OF_OTHERS and value != UNLIMITED:
            path = f"spec.tasks[{index}].{field}"
            yield f"{path}: {value} is kept, which the file leaves out; kubectl edit takes it away"


class _Files:
    """The file that a client applies, and the one applied before, as far as known."""

    def __init__(self, job: Object, before: Object, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._new, self._old = _applied_tasks(job), _applied_tasks(before)

    def have_written(self, task: Object) -> bool:
        """Return whether a task comes from a file, and not from a job that the client had read."""
        if self._is_whole:
            return True
        file = self._new.get(_name(task))
        if file is None:
            return False
        written, found = _present(file), _present(task)
        return written <= found and found - written <= _written_by_schema()

    def have_dropped(self, task: Object, field: str) -> bool:
        """Return whether the previous file had a field that this one lacks."""
        name = _name(task)
        had = mapping(self._old.get(name)).get(field) is not None
        return had and mapping(self._new.get(name)).get(field) is None


def _applied_tasks(job: Object) -> dict[str, Object]:
    annotations = mapping(mapping(job.get("metadata")).get("annotations"))
    text = annotations.get(_LAST_APPLIED)
    if not isinstance(text, str):
        return {}
    try:
        file = strict_json.loads(text.encode(), max_values=MAX_SPEC_VALUES)
    except ValueError:
        return {}
    return _by_name(mapping(file))


def _left_out(task: Object, old: Object) -> list[str]:
    return [
        field for field in _changing() if task.get(field) is None and old.get(field) is not None
    ]


def _within_bounds(replicas: object, task: Object) -> object:
    """Return the replicas, limited to the bounds of the new task."""
    least, most = task.get("minReplicas"), task.get("maxReplicas")
    if not isinstance(replicas, int):
        return replicas
    if isinstance(most, int):
        replicas = min(replicas, most)
    return max(replicas, least) if isinstance(least, int) else replicas


def _by_name(job: Object) -> dict[str, Object]:
    return {_name(task): task for task in _tasks(job)}


def _tasks(job: Object) -> list[Object]:
    tasks = items(mapping(job.get("spec")).get("tasks"))
    return [mapping(task) for task in tasks[:MAX_TASKS]]


def _name(task: Object) -> str:
    return str(task.get("name") or task.get("type") or "")


def _present(task: Object) -> set[str]:
    return {field for field, value in task.items() if value is not None}


@cache
def _changing() -> tuple[str, ...]:
    """Return the mutable fields of a task."""
    return tuple(name for name, field in fields_of(Task).items() if field.declared.may_change)


@cache
def _written_by_schema() -> frozenset[str]:
    return frozenset(name for name, field in fields_of(Task).items() if field.is_always_there)
