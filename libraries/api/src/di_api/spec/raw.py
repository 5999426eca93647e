"""Values of raw JSON that have to be of one type. All raise InvalidSpec if they are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, InvalidSpec, child


def text_of(value: object, path: str) -> str:
    """`value`, which has to be a text."""
    if not isinstance(value, str):
        raise invalid(path, value, "must be a string")
    return value


def object_of(value: object, path: str) -> Mapping[str, Any]:
    """`value`, which has to be an object."""
    if not isinstance(value, Mapping):
        raise invalid(path, value, "must be an object")
    return value


def items_of(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """The items of `value`, which has to be a list, each with its path."""
    if not isinstance(value, list):
        raise invalid(path, value, "must be a list")
    return ((child(path, index), item) for index, item in enumerate(value))


def objects_of(value: object, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the items of a list of objects, each with its path."""
    return [(where, object_of(item, where)) for where, item in items_of(value, path)]


def invalid(path: str, value: object, message: str) -> InvalidSpec:
    """The error of one field."""
    return InvalidSpec([FieldError(path, value, message)])
