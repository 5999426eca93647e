"""Unique names in lists of named objects."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

from di_api.field_error import FieldError, items, mapping

_Place = TypeVar("_Place")


def names_of(values: object) -> dict[int, str]:
    """Return the names in a list of named objects, by index."""
    return {
        index: name
        for index, value in enumerate(items(values))
        if isinstance(name := mapping(value).get("name"), str)
    }


def repeated(values: Mapping[_Place, Hashable]) -> Iterator[_Place]:
    """Yield the places whose value is that of a place before them."""
    seen = set[Hashable]()
    for place, value in values.items():
        if value in seen:
            yield place
        seen.add(value)


def repeated_names(names: Mapping[int, str], path: str, what: str) -> Iterator[FieldError]:
    """Yield an error for each repeated name of the list at `path`."""
    for index in repeated(names):
        yield FieldError(f"{path}[{index}].name", names[index], f"is the name of {what} already")
