"""Which field managers own the tasks of a job, by its `metadata.managedFields`.

The API server takes the list of tasks as one value: a manager that applies a file server-side owns
all of it, with what scalers have written, and any other one meets a conflict. Admission merges the
tasks instead (`kept`), so no manager may own them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import ANNOTATION_CHANGED_BY, API_VERSION

_APPLY: Final = "Apply"
_SPEC: Final = "f:spec"
_TASKS: Final = "f:tasks"
_FIELDS: Final = "fieldsV1"
_OURS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "manager": "di-webhook",
        "operation": "Update",
        "apiVersion": API_VERSION,
        "fieldsType": "FieldsV1",
        _FIELDS: {"f:metadata": {"f:annotations": {f"f:{ANNOTATION_CHANGED_BY}": {}}}},
    }
)
"""What stays where no other entry does: of an object without any, the API server takes every field
for one of a manager before all others, whom the next apply meets."""

Object = Mapping[str, Any]


def are_applied(job: Object) -> bool:
    """Whether the tasks of a job of any shape come from a server-side apply.

    No manager owned them before, so one that does has written them just now.
    """
    return any(
        entry.get("operation") == _APPLY and _TASKS in _of_spec(entry) for entry in _entries(job)
    )


def without_tasks(job: Object) -> list[Any] | None:
    """The managed fields of a job without its tasks; None: no manager owns them."""
    managed = items(mapping(job.get("metadata")).get("managedFields"))
    if not any(_TASKS in _of_spec(entry) for entry in _entries(job)):
        return None
    return [entry for each in managed if (entry := _without(each)) is not None] or [dict(_OURS)]


def _without(entry: Any) -> Any:
    """An entry without the tasks; None if it is about nothing else."""
    spec = _of_spec(mapping(entry))
    if _TASKS not in spec:
        return entry
    others = {field: value for field, value in spec.items() if field != _TASKS}
    fields = {**entry[_FIELDS], _SPEC: others}
    if not others:
        del fields[_SPEC]
    return {**entry, _FIELDS: fields} if fields else None


def _entries(job: Object) -> Iterator[Object]:
    return map(mapping, items(mapping(job.get("metadata")).get("managedFields")))


def _of_spec(entry: Object) -> Object:
    return mapping(mapping(entry.get(_FIELDS)).get(_SPEC))
