"""The objects of a collection in memory, by key and by index. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

Kept: TypeAlias = Mapping[str, Any]
"""An object as its transform left it. Shared: nobody may change one."""
Key = tuple[str, str]
"""(namespace, name); the namespace is "" for cluster-scoped objects."""
Index = Callable[[Any], Iterable[str]]
"""The values an object, as it is kept, is found under in an index."""


def key_of(obj: Kept) -> Key:
    """Where an object is kept."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(obj: Kept) -> int:
    """The object's resourceVersion as a number (see `as_number`)."""
    return as_number(obj["metadata"].get("resourceVersion", ""))


def as_number(version: str) -> int:
    """A resourceVersion as a number, comparable over all objects of one resource.

    Rule: KEP-5504 (Comparable Resource Version). A server that breaks it gives 0, which
    switches the protection against old events off instead of breaking the cache.
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
        """The object there, None if there is none."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """The keys of all objects."""
        return list(self._objects)

    def items(self) -> list[Kept]:
        """All objects."""
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[Kept]:
        """The objects found under `value`, in the order they came.

        Raises:
            KeyError: there is no such index.
        """
        return list(self._found[name].get(value, {}).values())

    def count(self, name: str, value: str) -> int:
        """How many objects an index finds under `value`."""
        return len(self._found[name].get(value, ()))

    def tally(self, name: str) -> Mapping[str, int]:
        """How many objects are found under each value of an index.

        Raises:
            KeyError: there is no such index.
        """
        return {value: len(found) for value, found in self._found[name].items()}

    def put(self, obj: Kept) -> None:
        """Take an object in, in place of the one of its key."""
        key = key_of(obj)
        self.remove(key)
        self._objects[key] = obj
        for name, index in self._indexes.items():
            for value in index(obj):
                self._found[name].setdefault(value, {})[key] = obj

    def remove(self, key: Key) -> Kept | None:
        """Forget an object, and return it; None if there is none."""
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
