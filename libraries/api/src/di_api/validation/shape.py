"""The shape of a DIJob spec: its fields, their types and their limits.

The CRD has the same rules for the API server; this copy works without one, and is derived from the
same declarations. Rules that relate fields to each other are in `relations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from di_api.base_template import BASE
from di_api.field_error import ABSENT, FieldError, unknown_field
from di_api.spec.declared import fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import CoreObject, Kind, List, Struct, Structs, Values


def cut_to_limits(spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Return a raw spec with its lists cut to their maximum length, and an error for each cut.

    Items beyond a limit are not checked, which saves time and repeated errors.
    """
    errors: list[FieldError] = []
    return _cut(JobSpec, spec, "spec", errors), errors


def _cut(
    owner: type, raw: Mapping[str, Any], path: str, errors: list[FieldError]
) -> dict[str, Any]:
    result = dict(raw)
    declared = fields_of(owner)
    for name, field in declared.items():
        value = result.get(name)
        if not isinstance(field.kind, List) or not isinstance(value, list):
            continue
        if len(value) > (most := field.kind.most):
            message = f"must hold at most {most} {field.kind.item}s"
            errors.append(FieldError(f"{path}.{name}", value, message))
            result[name] = value[:most]
    for name, field in declared.items():
        value = result.get(name)
        match field.kind:
            case Struct(of=of) if isinstance(value, Mapping) and _has_lists(of):
                result[name] = _cut(of, value, f"{path}.{name}", errors)
            case Structs(of=of) if isinstance(value, list) and _has_lists(of):
                result[name] = [
                    _cut(of, item, f"{path}.{name}[{index}]", errors)
                    if isinstance(item, Mapping)
                    else item
                    for index, item in enumerate(value)
                ]
            case _:
                pass
    return result


@cache
def _has_lists(owner: type) -> bool:
    return any(
        isinstance(field.kind, List)
        or (isinstance(field.kind, Struct) and _has_lists(field.kind.of))
        for field in fields_of(owner).values()
    )


def shape_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors for fields of a spec (with defaults) that are unknown, missing, mistyped or out
    of range.
    """
    return object_errors(JobSpec, spec, "spec")


def object_errors(owner: type, value: object, path: str) -> Iterator[FieldError]:
    """Yield the errors of `shape_errors` for an object whose fields `owner` declares."""
    if not isinstance(value, Mapping):
        yield FieldError(path, value, "must be an object")
        return
    known = fields_of(owner)
    for name, field in known.items():
        if (found := value.get(name, ABSENT)) is not None and found is not ABSENT:
            yield from _of_field(field.kind, found, f"{path}.{name}")
        elif field.is_required:
            message = field.declared.missing if found is ABSENT else "is required"
            yield FieldError(f"{path}.{name}", found, message)
    # A field that admission takes away, of which a rule says so where it has not.
    taken_away = {BASE} if owner is JobSpec else set()
    for name in value:
        if name not in known and name not in taken_away:
            yield unknown_field(path, name, value[name], known.keys() | taken_away)


def _of_field(kind: Kind | CoreObject, value: object, path: str) -> Iterator[FieldError]:
    if isinstance(kind, Struct):
        yield from object_errors(kind.of, value, path)
    elif isinstance(kind, List):
        yield from _of_list(kind, value, path)
    elif (message := kind.fault(value)) is not None:
        yield FieldError(path, value, message)


def _of_list(kind: List, value: object, path: str) -> Iterator[FieldError]:
    if not isinstance(value, list):
        yield FieldError(path, value, "must be a list")
        return
    is_right = True
    for index, item in enumerate(value):
        for error in _of_item(kind, item, f"{path}[{index}]"):
            is_right = False
            yield error
    # Of a list with items that are wrong the other faults may be theirs.
    if is_right and isinstance(kind, Values | Structs):
        if kind.least and not value:
            yield FieldError(path, value, f"must hold at least one {kind.item}")
        elif isinstance(kind, Values) and any(e in value[:i] for i, e in enumerate(value)):
            yield FieldError(path, value, f"must hold no {kind.item} twice")


def _of_item(kind: List, value: object, path: str) -> Iterator[FieldError]:
    if value is None and isinstance(kind, Values):
        yield FieldError(path, value, "may not be null")
    else:
        yield from _of_field(kind.of_items, value, path)
