"""An in-memory cache of a collection, kept by list and watch, that recovers from every watch
failure.

The loop: list the whole collection, watch its changes, and resume from the last version when the
stream ends, breaks or is silent. The whole collection is listed again only if the server reports
that version as gone (410, as a status or inside the stream) or keeps sending empty streams. Objects
that disappeared are then reported as deleted.

Subscribers get changes but cannot rely on every one: events that cancel each other while the watch
is disconnected are never delivered.

Each object is processed in isolation. If `transform` or an index fails on an object, the cache
keeps only its metadata and marks it (`UNREADABLE`). If a subscriber fails on it, that subscriber
misses the event. The log names the object, and all others are unaffected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any

from di_api.wording import describe
from di_kube.backoff import Backoff
from di_kube.cache_stats import CacheStats
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Gone, Invalid, Silent
from di_kube.pages import Version
from di_kube.resources import Resource
from di_kube.selectors import read_label_selector
from di_kube.store import Index, Kept, Key, Store, as_number, key_of, version_of
from di_kube.watch_limits import WatchLimits
from di_kube.wire import Object

log = logging.getLogger(__name__)

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
UNREADABLE = "unreadable"
"""Field of an object that could not be processed, and of no other: the error."""
_SKELETON = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "ownerReferences", "labels"),
    *("annotations", "creationTimestamp", "deletionTimestamp"),
)
# Up to this number of changed objects are read one by one; above it, the whole collection.
_READ_ONE_BY_ONE = 64
_INITIAL_END = "k8s.io/initial-events-end"

Subscriber = Callable[[str, Any], None]
"""Called with the type of an event and the object as it is cached."""
Transform = Callable[[Object], Kept]


class WatchCache:
    """The objects of one resource, slightly behind the API server.

    Objects are shared and must not be modified. All methods belong to the event loop of `run`.

    Args:
        client: an open client.
        resource, namespace, label_selector: the collection; None means all.
        transform: returns the cached form of an object; it can modify its argument, and must keep
            metadata.{name,namespace,uid,resourceVersion}. An error concerns that object only.
        indexes: by name (see `by_index`).
        clock: monotonic seconds.
        rng: for jitter.
        limits: timeouts, shortened by tests.

    Attributes:
        synced: set once the cache has been filled for the first time, and from then on.
        stats: counters."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        transform: Transform | None = None,
        indexes: Mapping[str, Index] | None = None,
        clock: Callable[[], float],
        rng: Random,
        limits: WatchLimits | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._selects = read_label_selector(label_selector or "")
        self._wanted_transform: Transform = transform or (lambda obj: obj)
        self._clock = clock
        self._rng = rng
        self._limits = limits or WatchLimits()
        self._backoff = Backoff(
            minimum=self._limits.backoff_minimum, maximum=self._limits.backoff_maximum, rng=rng
        )
        totals = {name: self._total(index) for name, index in (indexes or {}).items()}
        self._store = Store(indexes=totals)
        self._subscribers: list[Subscriber] = []
        self._version = ""
        self._streams_lists = True
        self._empty_streams = 0
        self._away_since: float | None = clock()
        # Deletions seen while `relist` reads: its list can still contain the object.
        self._buried: dict[Key, int] | None = None
        self.synced = asyncio.Event()
        self.stats = CacheStats()

    @property
    def resource_version(self) -> str:
        """Return the version that the next watch starts from; "" if the collection must be listed
        again."""
        return self._version

    @property
    def away(self) -> float:
        """Return the seconds since the last response of the API server; 0 while a stream is
        open."""
        return 0.0 if self._away_since is None else self._clock() - self._away_since

    def __len__(self) -> int:
        return len(self._store)

    def get(self, namespace: str | None, name: str) -> Kept | None:
        """Return the object with that name, None if there is none."""
        return self._store.get((namespace or "", name))

    def items(self) -> list[Kept]:
        """Return all objects."""
        return self._store.items()

    def by_index(self, index: str, value: str) -> list[Kept]:
        """Return the objects that an index of the constructor's `indexes` has under `value`."""
        return self._store.by_index(index, value)

    def count(self, index: str, value: str) -> int:
        """Return the number of objects that `by_index` returns."""
        return self._store.count(index, value)

    def tally(self, index: str) -> Mapping[str, int]:
        """Return the number of objects by index value, without reading any object."""
        return self._store.tally(index)

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback(type, object)` for every ADDED, MODIFIED and DELETED event, in order.

        It must be fast, such as adding a key to a queue. Its errors are logged."""
        self._subscribers.append(callback)

    def absorb(self, obj: Object) -> None:
        """Store the response to our own write, so that the next read includes it.

        A response that the watch has passed is ignored: the object may have been deleted since. One
        without the label of the collection removes the object: no watch reports its deletion."""
        if self._version and version_of(obj) > as_number(self._version):
            store = self._upsert if self._selects(obj) else self._remove
            store(self._transform(obj))

    def absorb_list(self, objects: Iterable[Kept], version: str) -> bool:
        """Store objects of a partial list at `version`, as returned by `recognise`.

        Returns False without a change if the watch is ahead of that list: its objects may have been
        deleted since."""
        if not self._version or as_number(version) < as_number(self._version):
            return False
        for obj in objects:
            self._upsert(obj)
        return True

    def recognise(self, obj: Object) -> Kept:
        """Return the cached form of an object that was read; the identical cached object if it is
        unchanged, so that a new list of the collection does not double its memory."""
        return self._kept(obj) or self._transform(obj)

    async def run(self) -> None:
        """Keep the cache up to date until cancelled; no error ends it."""
        while True:
            wait: float | None = None
            try:
                await self._follow()
            except Gone:
                self._version = ""
            except ApiError as error:
                detail = {"plural": self._resource.plural, "code": error.code}
                detail |= {"reason": error.reason, "detail": error.message}
                if isinstance(error, Silent) and self._version:
                    # A stream of an idle collection; the next one shows whether the API server
                    # responds. Without a version the list itself stopped halfway.
                    self._backoff.reset()
                    log.debug("watch is silent", extra=detail)
                else:
                    self.stats.errors += 1
                    wait = error.retry_after
                    log.warning("watch failed", extra=detail)
            except Exception:
                # A defect of ours. Resuming at the same place would repeat it.
                self._version = ""
                self.stats.errors += 1
                log.exception("watch failed", extra={"plural": self._resource.plural})
            if self._away_since is None:
                self._away_since = self._clock()
            await asyncio.sleep(self._backoff.delay(at_least=wait))

    async def relist(self) -> bool:
        """Compare the collection and repair what the watch lost, as if the events had arrived.

        The versions of all objects are read, and the content only of those that differ. The watch
        continues meanwhile, and its newer events win over the list. Returns False if nothing was
        compared: before the cache is synced, and while another call or a full list runs.

        Raises:
            ApiError: the list failed; nothing was changed."""
        if self._buried is not None or not self._version:
            return False
        self._buried = {}
        lists, known = self.stats.lists, as_number(self._version)
        try:
            versions, version = await self._client.list_versions(
                self._resource,
                self._namespace,
                label_selector=self._label_selector,
                transform=self._as_listed,
            )
            self.stats.polls += 1
            if as_number(version) < known:
                # A list is read from a quorum, so it is older than what we have seen only if the
                # past is replayed: no list is newer.
                self.stats.stale += 1
                return True
            behind = [one for one in versions if self._is_behind(one)]
            if len(behind) > _READ_ONE_BY_ONE:
                changed, version = await self._list(self.recognise)
                versions = changed
            else:
                changed = [obj for one in behind for obj in await self._read(one, version)]
            if self._version and lists == self.stats.lists:
                present = set(map(key_of, versions))
                self._repair(changed, present, as_number(version), self._buried)
                if as_number(version) > as_number(self._version):
                    # Outstanding events of a lagging watch are outdated from now on.
                    self._version = version
            return bool(self._version)
        finally:
            self._buried = None

    async def _follow(self) -> None:
        """Run one attempt: list the whole collection if there is no version, then read one stream
        to its end."""
        if not self._version and not self._streams_lists:
            self._replace(*await self._list(self._transform))
        if self._version:
            await self._consume_changes()
        else:
            await self._consume_everything()

    async def _consume_everything(self) -> None:
        """Read a stream that begins with the whole collection (saves the memory of one
        large list)."""
        try:
            if not await self._consume(_Filling(objects={})):
                raise Invalid(kind=self._resource.kind, message="no end of the initial events")
        except Invalid as error:
            log.info("streaming lists are not served", extra={"detail": error.message})
            self._streams_lists = False

    async def _consume_changes(self) -> None:
        before, opened = (self._version, self.stats.events), self._clock()
        await self._consume(None)
        if self._clock() - opened >= self._limits.empty:
            self._backoff.reset()
        elif (self._version, self.stats.events) == before:
            self._empty_streams += 1
        if self._empty_streams >= self._limits.empty_streams:
            self._empty_streams = 0
            self._version = ""

    async def _consume(self, filling: _Filling | None) -> bool:
        """Process one stream; return whether `filling`, if given, was completed."""
        self.stats.streams += 1
        async with aclosing(self._open(initial=filling is not None)) as events:
            async for kind, obj in events:
                self._answered()
                if filling is None:
                    self._take(kind, obj)
                elif filling.take(kind, obj, self._transform):
                    self._replace(filling.objects.values(), obj["metadata"]["resourceVersion"])
                    filling = None
        return filling is None

    def _open(self, *, initial: bool) -> AsyncGenerator[tuple[str, Object], None]:
        stream = self._limits.stream
        return self._client.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self._label_selector,
            timeout_seconds=max(1, round(self._rng.uniform(stream, 2 * stream))),
            send_initial_events=initial,
            silence=self._limits.silence,
            # Without its objects the list has not been answered.
            opened=self._answered if self._version else _ignore,
        )

    def _answered(self) -> None:
        self._away_since = None

    async def _list(self, transform: Transform) -> tuple[Sequence[Kept], str]:
        return await self._client.list(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            transform=transform,
        )

    async def _read(self, one: Kept, listed: str) -> Sequence[Kept]:
        """Return the present object; empty if it is deleted, no longer in the collection, or older
        than the version `listed`."""
        namespace, name = key_of(one)
        # A list of one object: it needs no further permission, and applies the label selector.
        found, version = await self._client.list(
            self._resource,
            namespace or None,
            label_selector=self._label_selector,
            field_selector=f"metadata.name={name}",
            transform=self._transform,
        )
        return found if as_number(version) >= as_number(listed) else []

    def _as_listed(self, one: Version) -> Kept:
        """Return the form that `relist` compares: of fifty thousand objects nearly all are the
        cached ones."""
        return self._cached((one.namespace, one.name), one.resourceVersion) or {
            "metadata": {
                "namespace": one.namespace,
                "name": one.name,
                "resourceVersion": one.resourceVersion,
            }
        }

    def _kept(self, obj: Object) -> Kept | None:
        """Return the cached object if it has the version that was read."""
        return self._cached(key_of(obj), obj["metadata"]["resourceVersion"])

    def _cached(self, key: Key, version: str) -> Kept | None:
        """Return the cached object if it has this version."""
        kept = self._store.get(key)
        return kept if kept and kept["metadata"]["resourceVersion"] == version else None

    def _is_behind(self, one: Kept) -> bool:
        """Return whether the cached object, if any, is older than the listed version."""
        kept = self._store.get(key_of(one))
        buried = (self._buried or {}).get(key_of(one), -1)
        return version_of(one) > (buried if kept is None else version_of(kept))

    def _take(self, kind: str, obj: Object) -> None:
        """Process one event of the watch."""
        version = obj["metadata"].get("resourceVersion", "")
        if version_of(obj) < as_number(self._version):
            # Versions only grow along a watch: this is a replay of the past.
            self.stats.stale += 1
            return
        if kind != BOOKMARK:
            self.stats.events += 1
            if kind == DELETED:
                self._remove(self._transform(obj))
            else:
                # Usually the event of our own write, which is already cached.
                self._upsert(self.recognise(obj))
        # Only an event after the initial list proves that the version is usable. A reset during the
        # initial list would turn a server that always responds 410 into a busy loop.
        self._backoff.reset()
        self._empty_streams = 0
        self._version = version

    def _replace(self, objects: Iterable[Kept], version: str) -> None:
        """Replace the cache by a whole collection; subscribers get the difference."""
        vanished = set(self._store.keys())
        for obj in objects:
            vanished.discard(key_of(obj))
            self._upsert(obj, known_newest=True)
        for key in vanished:
            self._drop(key)
        self._version = version
        self._away_since = None
        self.stats.lists += 1
        self.synced.set()

    def _repair(
        self, changed: Iterable[Kept], present: set[Key], version: int, buried: Mapping[Key, int]
    ) -> None:
        """Store the changed objects, and remove those that were not `present` at `version`."""
        vanished = set(self._store.keys()) - present
        for obj in changed:
            if version_of(obj) > buried.get(key_of(obj), -1):
                self.stats.repairs += self._upsert(obj)
        for key in vanished:
            kept = self._store.get(key)
            if kept is not None and version_of(kept) <= version:
                self.stats.repairs += 1
                self._drop(key)

    def _upsert(self, obj: Kept, *, known_newest: bool = False) -> bool:
        """Store `obj` unless it is known or older than the cached object."""
        old = self._store.get(key_of(obj))
        if old is None:
            self._store.put(obj)
            self._tell(ADDED, obj)
            return True
        if old["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
            return False
        if version_of(obj) < version_of(old) and not known_newest:
            return False
        if old["metadata"]["uid"] != obj["metadata"]["uid"]:
            # The same name, another object: subscribers must get the deletion of the old one.
            self._drop(key_of(old))
            return self._upsert(obj)
        self._store.put(obj)
        self._tell(MODIFIED, obj)
        return True

    def _remove(self, obj: Kept) -> None:
        key = key_of(obj)
        if self._buried is not None:
            self._buried[key] = version_of(obj)
        old = self._store.get(key)
        if old is not None and version_of(old) <= version_of(obj):
            self._store.remove(key)
            self._tell(DELETED, obj)

    def _drop(self, key: Key) -> None:
        old = self._store.remove(key)
        if old is not None:
            self._tell(DELETED, old)

    def _tell(self, kind: str, obj: Kept) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(kind, obj)
            except Exception as error:
                self._blame(obj, "an object is no news to a subscriber that failed", error)

    def _transform(self, obj: Object) -> Kept:
        """Return the cached form of an object; its metadata and the error if it cannot be
        transformed."""
        try:
            return self._wanted_transform(obj)
        except Exception as error:
            self._blame(obj, "an object cannot be read", error)
            metadata = obj["metadata"]
            return {
                "metadata": {key: metadata[key] for key in _SKELETON if key in metadata},
                UNREADABLE: describe(error),
            }

    def _total(self, index: Index) -> Index:
        """Return the index with a fallback: an object on which it fails has no value."""

        def values(obj: Kept) -> Iterable[str]:
            try:
                return list(index(obj))
            except Exception as error:
                self._blame(obj, "an object cannot be indexed", error)
                return ()

        return values

    def _blame(self, obj: Kept, what: str, error: Exception) -> None:
        """Log the object at fault. Any client can write such an object, so it gets one line."""
        self.stats.unreadable += 1
        namespace, name = key_of(obj)
        log.warning(
            what,
            extra={"plural": self._resource.plural, "namespace": namespace, "object": name}
            | {"detail": describe(error)},
            exc_info=log.isEnabledFor(logging.DEBUG),
        )


@dataclass(slots=True, kw_only=True)
class _Filling:
    """A collection that arrives as a stream, possibly mixed with changes."""

    objects: dict[Key, Kept]

    def take(self, kind: str, obj: Object, transform: Transform) -> bool:
        """Add one event; return whether it ended the collection."""
        if kind == BOOKMARK:
            return _INITIAL_END in obj["metadata"].get("annotations", {})
        if kind == DELETED:
            self.objects.pop(key_of(obj), None)
        else:
            self.objects[key_of(obj)] = transform(obj)
        return False


def _ignore() -> None:
    return None
