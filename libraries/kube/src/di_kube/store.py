"""The objects of a collection in memory, by key and by index. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

Kept: TypeAlias = Mapping[str, Any]
"""The cached form of an object. Shared: must not be modified."""
Key = tuple[str, str]
"""(namespace, name); the namespace is "" for cluster-scoped objects."""
Index = Callable[[Any], Iterable[str]]
"""Returns the values under which an index lists an object in its cached form."""


def key_of(obj: Kept) -> Key:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(obj: Kept) -> int:
    """Return the object's resourceVersion as a number (see `as_number`)."""
    return as_number(obj["metadata"].get("resourceVersion", ""))


def as_number(version: str) -> int:
    """Return a resourceVersion as a number, comparable over all objects of one resource.

    Rule: KEP-5504 (Comparable Resource Version). For a server that breaks it the result is 0, which
    disables the protection against old events instead of breaking the cache.
    """
    return int(version) if version.isdecimal() else 0


class Store:
    """A dict of objects with secondary indexes that follow every change."""

    def __init__(self, *, indexes: Mapping[str, Index]) -> None:
        self._objects: dict[Key, Kept] = {}
        self._indexes = dict(indexes)
        self._found: dict[str, dict[str, dict[Key, Kept]]] = {name: {} for name in indexes}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> Kept | None:
        """Return the object with that key, None if there is none."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """Return the keys of all objects."""
        return list(self._objects)

    def items(self) -> list[Kept]:
        """Return all objects."""
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[Kept]:
        """Return the objects under `value`, in order of arrival.

        Raises:
            KeyError: there is no such index.
        """
        return list(self._found[name].get(value, {}).values())

    def count(self, name: str, value: str) -> int:
        """Return the number of objects that an index has under `value`."""
        return len(self._found[name].get(value, ()))

    def tally(self, name: str) -> Mapping[str, int]:
        """Return the number of objects under each value of an index.

        Raises:
            KeyError: there is no such index.
        """
        return {value: len(found) for value, found in self._found[name].items()}

    def put(self, obj: Kept) -> None:
        """Store an object, in place of the one with its key."""
        key = key_of(obj)
        self.remove(key)
        self._objects[key] = obj
        for name, index in self._indexes.items():
            for value in index(obj):
                self._found[name].setdefault(value, {})[key] = obj

    def remove(self, key: Key) -> Kept | None:
        """Remove and return an object; None if there is none."""
        obj = self._objects.pop(key, None)
        if obj is None:
            return None
        for name, index in self._indexes.items():
            found = self._found[name]
            for value in index(obj):
                bucket = found.get(value)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del found[value]
        return obj
