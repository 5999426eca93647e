"""A thread-safe cache that a watch fills."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import structlog

from di_api.wording import describe
from di_kube.cache import DELETED, UNREADABLE
from di_kube.store import Key, key_of, version_of
from di_server.storage.kube import Object

_log = structlog.get_logger()

V = TypeVar("V")
Index = Callable[[Object], Iterable[Hashable]]
"""Returns the values under which an object is indexed."""


class ObjectCache(Generic[V]):
    """The objects of one resource as `view` builds them, by key and by index.

    The watch's thread writes through `on_event` and `mark_synced`; request threads read, and store
    newer objects through `put_newer`. The newer of two versions stays, from either thread, so a
    thread that wrote an object never sees an older version. An object that cannot be parsed is left
    out, and requests about it read it from the API server.

    Args:
        transform: the watch's transform.
        view: builds the cached form of a transformed object; it is shared and must not be modified.
        indexes: of transformed objects, by name.
    """

    def __init__(
        self,
        *,
        transform: Callable[[Object], Object],
        view: Callable[[Object], V],
        indexes: Mapping[str, Index] | None = None,
    ) -> None:
        self._transform = transform
        self._view = view
        indexes = indexes or {}
        self._indexes = dict(indexes)
        self._lock = threading.Lock()
        self._kept: dict[Key, tuple[Object, V]] = {}
        self._found: dict[str, dict[Hashable, dict[Key, V]]] = {name: {} for name in indexes}
        self._unreadable: set[Key] = set()
        self._ahead: set[Key] = set()
        """Objects that `put_newer` stored, and the watch has not shown yet."""
        self._watched = 0
        self._synced = False

    @property
    def synced(self) -> bool:
        """Return whether the whole collection has been read once: only then does a missing object
        not exist.
        """
        return self._synced

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def unreadable(self) -> int:
        """Return the number of objects that could not be parsed."""
        return len(self._unreadable)

    def mark_synced(self) -> None:
        """Record that the watch has delivered all objects that existed at its start."""
        self._synced = True

    def clear(self) -> None:
        """Empty the cache, because the watch has stopped and the content would become outdated."""
        with self._lock:
            self._synced = False
            for key in list(self._kept):
                self._forget(key)
            self._unreadable.clear()

    def get(self, namespace: str, name: str) -> V | None:
        """Return one object; None also before the cache is synced."""
        kept = self._kept.get((namespace, name)) if self._synced else None
        return kept[1] if kept else None

    def values(self) -> list[V]:
        """Return all objects; empty before the cache is synced."""
        if not self._synced:
            return []
        with self._lock:
            return [view for _, view in self._kept.values()]

    def by_index(self, index: str, value: Hashable) -> list[V]:
        """Return the objects that an index has under `value`; empty before the cache is synced."""
        if not self._synced:
            return []
        with self._lock:
            return list(self._found[index].get(value, {}).values())

    def on_event(self, kind: str, obj: Object) -> None:
        """Process one event of the watch."""
        with self._lock:
            if kind == DELETED:
                self._watched = max(self._watched, version_of(obj))
                self._drop(obj)
                return
            version, key = version_of(obj), key_of(obj)
            kept = self._kept.get(key)
            is_older = kept is not None and version < version_of(kept[0])
            # Older than what the watch itself has shown: etcd was restored from a backup.
            is_past = is_older and key not in self._ahead
            if not is_older:
                self._ahead.discard(key)
            self._watched = version if is_past else max(self._watched, version)
            self._put(obj, as_it_is, is_past=is_past)

    def put_newer(self, obj: Object) -> None:
        """Store an object that was read or written directly."""
        with self._lock:
            # An object that the watch has passed may have been deleted since.
            if version_of(obj) > self._watched and self._put(obj, self._transform):
                self._ahead.add(key_of(obj))

    def _put(
        self, obj: Object, transform: Callable[[Object], Object], *, is_past: bool = False
    ) -> bool:
        """Store an object unless it is known; return whether it was stored."""
        key = key_of(obj)
        kept = self._kept.get(key)
        if kept and not is_past and version_of(obj) <= version_of(kept[0]):
            return False
        if UNREADABLE in obj:
            self._leave_out(key)
            return False
        try:
            transformed = transform(obj)
            view = self._view(transformed)
            found = {name: list(index(transformed)) for name, index in self._indexes.items()}
        except Exception as error:
            self._leave_out(key)
            detail = describe(error)
            _log.warning("an object cannot be read", namespace=key[0], object=key[1], detail=detail)
            return False
        # In place of the earlier version, which threads read without the lock until now: an object
        # that exists is never missing.
        self._kept[key] = transformed, view
        self._unreadable.discard(key)
        self._ahead.discard(key)
        if kept:
            self._unindex(key, kept[0])
        for name, values in found.items():
            for value in values:
                self._found[name].setdefault(value, {})[key] = view
        return True

    def _drop(self, obj: Object) -> None:
        kept = self._kept.get(key_of(obj))
        self._unreadable.discard(key_of(obj))
        # A deleted object has no later version, whatever was stored: after a new list the watch
        # reports the deletion with the last version that it had seen. Another object can have the
        # name.
        if kept and kept[0]["metadata"]["uid"] == obj["metadata"]["uid"]:
            self._forget(key_of(obj))

    def _forget(self, key: Key) -> None:
        self._unreadable.discard(key)
        self._ahead.discard(key)
        kept = self._kept.pop(key, None)
        if kept:
            self._unindex(key, kept[0])

    def _leave_out(self, key: Key) -> None:
        """Forget an object because its present version cannot be read."""
        self._forget(key)
        self._unreadable.add(key)

    def _unindex(self, key: Key, transformed: Object) -> None:
        for name, index in self._indexes.items():
            for value in index(transformed):
                bucket = self._found[name][value]
                del bucket[key]
                if not bucket:
                    del self._found[name][value]


def as_it_is(obj: Object) -> Object:
    """Return the object unchanged, as view or transform."""
    return obj
