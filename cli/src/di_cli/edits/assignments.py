"""`KEY=VALUE` arguments of `di set`: the mutable fields of a job, and the patch that changes them.

The fields themselves declare whether they are mutable; the API server makes the final check.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from di_api.crd.changes import may_change
from di_api.field_error import items, mapping
from di_api.spec.job import JobSpec

Object = Mapping[str, Any]
Operation = dict[str, Any]
_TASKS: Final = "tasks[]."


class AssignmentError(ValueError):
    """The field is immutable or unknown, or the value is invalid."""


def fields() -> list[str]:
    """Return the mutable fields, as they are written: `suspend`, `tasks.TASK.replicas`."""
    found = (
        each
        for each in may_change(JobSpec, with_lists=True)
        if "[]" not in each.replace(_TASKS, "")
    )
    return sorted(each.replace(_TASKS, "tasks.TASK.") for each in found)


def patch(job: Object, texts: Sequence[str]) -> list[Operation]:
    """Return the JSON patch of all assignments to a job.

    It fails with a conflict if the job has changed since it was read. Raises AssignmentError.
    """
    version = mapping(job.get("metadata")).get("resourceVersion")
    spec: dict[str, Any] = deepcopy(dict(mapping(job.get("spec"))))
    operations: list[Operation] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    ]
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise AssignmentError(f"{text!r}: give FIELD=VALUE, as in priority=high")
        operations += _operations(spec, key.removeprefix("spec."), _parsed(value))
    return operations


def assigned(job: Object, texts: Sequence[str]) -> dict[str, Any]:
    """Return an unstored job with assigned fields of its spec. Raises AssignmentError."""
    spec: dict[str, Any] = deepcopy(dict(mapping(job.get("spec"))))
    for text in texts:
        key, equals, value = text.partition("=")
        parts = key.removeprefix("spec.").split(".")
        if not equals or not all(parts):
            raise AssignmentError(f"{text!r}: give FIELD=VALUE, as in tasks.learner.replicas=2")
        owner: dict[str, Any] = spec
        if parts[0] == "tasks" and len(parts) > 2:
            owner = items(spec["tasks"])[_index_of(spec, parts[1])]
            parts = parts[2:]
        for _ in _at(owner, "", parts, _parsed(value)):
            """Of the operations nothing is needed but what they leave behind."""
    return {**job, "spec": spec}


def _operations(spec: dict[str, Any], key: str, value: object) -> Iterator[Operation]:
    parts = key.split(".")
    if parts[0] == "tasks" and len(parts) > 2:
        index = _index_of(spec, parts[1])
        _check(".".join(("tasks", "TASK", *parts[2:])), key)
        yield from _at(items(spec["tasks"])[index], f"/spec/tasks/{index}", parts[2:], value)
        return
    _check(key, key)
    yield from _at(spec, "/spec", parts, value)


def _at(
    owner: dict[str, Any], path: str, parts: Sequence[str], value: object
) -> Iterator[Operation]:
    """Yield the operations for one field, and set it in `owner` for later assignments."""
    first, *others = parts
    if others:
        if not isinstance(owner.get(first), dict):
            yield {"op": "add", "path": f"{path}/{first}", "value": {}}
            owner[first] = {}
        yield from _at(owner[first], f"{path}/{first}", others, value)
    elif value is not None:
        yield {"op": "add", "path": f"{path}/{first}", "value": value}
        owner[first] = value
    elif first in owner:
        yield {"op": "remove", "path": f"{path}/{first}"}
        del owner[first]


def _index_of(spec: Object, name: str) -> int:
    names = [
        str(mapping(task).get("name") or mapping(task).get("type"))
        for task in items(spec.get("tasks"))
    ]
    if name not in names:
        raise AssignmentError(f"the job has no task {name}; its tasks are {', '.join(names)}")
    return names.index(name)


def _check(field: str, written: str) -> None:
    known = fields()
    if field in known or any(field.startswith(f"{each}.") for each in known):
        return
    close = difflib.get_close_matches(field, known, n=1)
    hint = f"did you mean {close[0]}?" if close else "without any, di set lists those that may"
    raise AssignmentError(f"{written} may not change while the job exists; {hint}")


def _parsed(text: str) -> object:
    """Return a value parsed as JSON, or else as a string; an empty text removes the field."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
