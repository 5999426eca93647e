"""Ownership of the tasks of a job by field managers, in `metadata.managedFields`.

The API server treats the list of tasks as one value. A manager that applies a file server-side owns
all of it, with a scaler's changes, and any other manager gets a conflict. Admission merges the
tasks instead (`kept`), so no manager must own them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from di_api.base_template import BASE
from di_api.field_error import items, mapping
from di_api.names import ANNOTATION_CHANGED_BY, API_VERSION

_APPLY: Final = "Apply"
_SPEC: Final = "f:spec"
_TASKS: Final = "f:tasks"
_MERGED: Final = frozenset({_TASKS, f"f:{BASE}"})
"""Fields of the spec that admission merges."""
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
"""Entry that stays if there is no other: if an object has no entries, the API server assigns every
field to a manager before all others, which conflicts with the next apply.
"""

Object = Mapping[str, Any]


def are_applied(job: Object) -> bool:
    """Return whether the tasks of a job of any shape come from a server-side apply.

    No manager owned them before, so a manager that does has just written them.
    """
    return any(
        entry.get("operation") == _APPLY and _TASKS in _of_spec(entry) for entry in _entries(job)
    )


def without_tasks(job: Object) -> list[Any] | None:
    """Return the managed fields of a job without its tasks and the base of their templates; None:
    no manager owns them.
    """
    managed = items(mapping(job.get("metadata")).get("managedFields"))
    if not any(_MERGED & _of_spec(entry).keys() for entry in _entries(job)):
        return None
    return [entry for each in managed if (entry := _without(each)) is not None] or [dict(_OURS)]


def _without(entry: Any) -> Any:
    """Return an entry without the tasks; None if nothing is left."""
    spec = _of_spec(mapping(entry))
    if not _MERGED & spec.keys():
        return entry
    others = {field: value for field, value in spec.items() if field not in _MERGED}
    fields = {**entry[_FIELDS], _SPEC: others}
    if not others:
        del fields[_SPEC]
    return {**entry, _FIELDS: fields} if fields else None


def _entries(job: Object) -> Iterator[Object]:
    return map(mapping, items(mapping(job.get("metadata")).get("managedFields")))


def _of_spec(entry: Object) -> Object:
    return mapping(mapping(entry.get(_FIELDS)).get(_SPEC))
