"""Parsing a raw spec into its dataclasses; checks only the types of values.

Rules about values are not checked, and unknown fields are ignored. The parser never guesses: it
raises an error for the first value with a type or enumeration member that this version does not
support. A null field counts as absent, as it does for the API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from di_api.field_error import ABSENT
from di_api.spec.declared import fields_of
from di_api.spec.kinds import CoreObject, Kind, List, Struct, Structs
from di_api.spec.raw import invalid, items_of, object_of, objects_of

_Spec = TypeVar("_Spec")


def read(owner: type[_Spec], raw: Mapping[str, Any], path: str) -> _Spec:
    """Return the raw object at `path` as a dataclass of `di_api.spec`.

    Raises:
        InvalidSpec: a value cannot be parsed, or a required one is missing.
    """
    values: dict[str, Any] = {}
    declaring: type = owner
    for name, field in fields_of(declaring).items():
        found = raw.get(name)
        if found is not None:
            values[field.attribute] = _value(field.kind, found, f"{path}.{name}")
        elif field.is_required:
            raise invalid(f"{path}.{name}", raw.get(name, ABSENT), "is required")
    return owner(**values)


def _value(kind: Kind | CoreObject, value: object, path: str) -> object:
    if isinstance(kind, Struct):
        return read(kind.of, object_of(value, path), path)
    if not isinstance(kind, List):
        return kind.read(value, path)
    found = objects_of(value, path) if isinstance(kind, Structs) else items_of(value, path)
    return tuple(_value(kind.of_items, item, where) for where, item in found)
