"""Unique names in lists of named objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from di_api.field_error import FieldError, items, mapping


def names_of(values: object) -> dict[int, str]:
    """Return the names in a list of named objects, by index."""
    return {
        index: name
        for index, value in enumerate(items(values))
        if isinstance(name := mapping(value).get("name"), str)
    }


def repeated_names(names: Mapping[int, str], path: str, what: str) -> Iterator[FieldError]:
    """Yield an error for each repeated name of the list at `path`."""
    seen: set[str] = set()
    for index, name in names.items():
        if name in seen:
            yield FieldError(f"{path}[{index}].name", name, f"is the name of {what} already")
        seen.add(name)
