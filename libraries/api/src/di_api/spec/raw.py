"""Reads values of raw JSON that have to be of one type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError, InvalidSpec, child

_NUMBER: Final = "(0|[1-9][0-9]{0,9})"
RANGE: Final = f"{_NUMBER}-{_NUMBER}"
"""Regular expression of a range of whole numbers: its first and last number."""


def text_of(value: object, path: str) -> str:
    """Return a text. Raises InvalidSpec for another value."""
    if not isinstance(value, str):
        raise invalid(path, value, "must be a string")
    return value


def object_of(value: object, path: str) -> Mapping[str, Any]:
    """Return an object. Raises InvalidSpec for another value."""
    if not isinstance(value, Mapping):
        raise invalid(path, value, "must be an object")
    return value


def items_of(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Return the items of a list, each with its path. Raises InvalidSpec for another value."""
    if not isinstance(value, list):
        raise invalid(path, value, "must be a list")
    return ((child(path, index), item) for index, item in enumerate(value))


def objects_of(value: object, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the items of a list of objects, each with its path. Raises InvalidSpec for others."""
    return [(where, object_of(item, where)) for where, item in items_of(value, path)]


def invalid(path: str, value: object, message: str) -> InvalidSpec:
    """Return the error of one field."""
    return InvalidSpec([FieldError(path, value, message)])


def read_numbers(value: object) -> range | None:
    """Return the numbers of a whole number (`3`) or a range (`128-255`); None for other values and
    for a range that ends before it begins.
    """
    # True is an int to Python and not to JSON.
    if isinstance(value, int) and not isinstance(value, bool):
        return range(value, value + 1)
    if not isinstance(value, str) or not re.fullmatch(RANGE, value):
        return None
    first, last = map(int, value.split("-"))
    return range(first, last + 1) or None
