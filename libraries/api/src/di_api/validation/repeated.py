"""Names in a list of named objects, of which no two may be the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from di_api.field_error import FieldError, items, mapping


def names_of(values: object) -> dict[int, str]:
    """Index and name of the objects in a list of named objects."""
    return {
        index: name
        for index, value in enumerate(items(values))
        if isinstance(name := mapping(value).get("name"), str)
    }


def repeated_names(names: Mapping[int, str], path: str, what: str) -> Iterator[FieldError]:
    """An error for each name that is there already, of the list at `path`."""
    seen: set[str] = set()
    for index, name in names.items():
        if name in seen:
            yield FieldError(f"{path}[{index}].name", name, f"is the name of {what} already")
        seen.add(name)
