"""The documents of a manifest's file, with those of Lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from di_api.field_error import items


def numbered(documents: Iterable[object]) -> Iterator[tuple[int, object]]:
    """Yield each document with its number from 1; a List is replaced by its items, which have their
    numbers in it.
    """
    for number, document in enumerate(documents, 1):
        if isinstance(document, Mapping) and document.get("kind") == "List":
            yield from numbered(items(document.get("items")))
        else:
            yield number, document
