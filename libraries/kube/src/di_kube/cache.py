"""A collection kept in memory by list and watch, through every way a watch can fail.

The loop: take the whole collection, follow its changes, and come back to the last version seen
when the stream ends, is cut or falls silent. Only when the server says that version is gone
(410, as a status or inside the stream), or keeps answering with empty streams, is the whole
collection taken again; what vanished meanwhile is then reported as deleted.

Subscribers learn of changes but must not rely on seeing each one: events that cancel each other
while the watch is away are never delivered.

Each object is read in isolation. One that `transform` or an index cannot bear is kept by its
metadata alone and marked (`UNREADABLE`), one that a subscriber cannot bear is no news to it;
the log names it, and all others go on.
"""

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
from di_kube.resources import Resource
from di_kube.store import Index, Kept, Key, Store, as_number, key_of, version_of
from di_kube.watch_limits import WatchLimits
from di_kube.wire import Object

log = logging.getLogger(__name__)

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
UNREADABLE = "unreadable"
"""Field of an object that could not be read, and of no other: what went wrong."""
_SKELETON = (
    *("name", "namespace", "uid", "resourceVersion", "generation", "ownerReferences", "labels"),
    *("annotations", "creationTimestamp", "deletionTimestamp"),
)
# What differs of so many objects is read one by one; of more, everything anew.
_READ_ONE_BY_ONE = 64
_INITIAL_END = "k8s.io/initial-events-end"

Subscriber = Callable[[str, Any], None]
"""Told of the type of an event and of the object, as it is kept."""
Transform = Callable[[Object], Kept]


class WatchCache:
    """The objects of one resource, as the API server has them, a moment late.

    Objects are shared: nobody may change one. All methods belong to the event loop of `run`.

    Args:
        client: an open client.
        resource, namespace, label_selector: what to keep; None means all.
        transform: makes the object that is kept from the one received; it may change its argument,
            and must leave metadata.{name,namespace,uid,resourceVersion}. What it raises concerns
            that object alone.
        indexes: by name (see `by_index`).
        clock: monotonic seconds.
        rng: for jitter.
        limits: times, shortened by tests.

    Attributes:
        synced: set once the cache has been filled for the first time, and from then on.
        stats: counters.
    """

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
        # Deletions seen while `relist` reads: its list may still hold the object.
        self._buried: dict[Key, int] | None = None
        self.synced = asyncio.Event()
        self.stats = CacheStats()

    @property
    def resource_version(self) -> str:
        """The version the next watch starts from; "" when the collection must be taken anew."""
        return self._version

    @property
    def away(self) -> float:
        """Seconds since the API server was last known to answer; 0 while a stream is open."""
        return 0.0 if self._away_since is None else self._clock() - self._away_since

    def __len__(self) -> int:
        return len(self._store)

    def get(self, namespace: str | None, name: str) -> Kept | None:
        """The object of that name, None if there is none."""
        return self._store.get((namespace or "", name))

    def items(self) -> list[Kept]:
        """All objects."""
        return self._store.items()

    def by_index(self, index: str, value: str) -> list[Kept]:
        """The objects one of the constructor's `indexes` finds under `value`."""
        return self._store.by_index(index, value)

    def count(self, index: str, value: str) -> int:
        """How many objects `by_index` would find."""
        return self._store.count(index, value)

    def tally(self, index: str) -> Mapping[str, int]:
        """How many objects an index finds under each value, without a look at any of them."""
        return self._store.tally(index)

    def subscribe(self, callback: Subscriber) -> None:
        """Have `callback(type, object)` called on every ADDED, MODIFIED and DELETED, in order.

        It must be quick; enqueueing a key is what it is for. What it raises is logged.
        """
        self._subscribers.append(callback)

    def absorb(self, obj: Object) -> None:
        """Take in the answer to a write of our own, so that the next look already sees it.

        Whatever the watch has passed is left out: it may have been deleted since.
        """
        if self._version and version_of(obj) > as_number(self._version):
            self._upsert(self._transform(obj))

    def absorb_list(self, objects: Iterable[Kept], version: str) -> bool:
        """Take in what a list of a part of the collection showed at `version`; the objects as
        `recognise` returned them.

        Returns False, with nothing changed, if the watch is further than that list: what it
        showed may have been deleted since.
        """
        if not self._version or as_number(version) < as_number(self._version):
            return False
        for obj in objects:
            self._upsert(obj)
        return True

    def recognise(self, obj: Object) -> Kept:
        """What is kept, or would be, of an object that was read: the very object that is kept if
        it is that, so that reading a collection anew does not hold it twice."""
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
                    # An idle collection's stream; the next one shows whether the API server
                    # answers. Without a version the collection itself stopped half-way.
                    self._backoff.reset()
                    log.debug("watch is silent", extra=detail)
                else:
                    self.stats.errors += 1
                    wait = error.retry_after
                    log.warning("watch failed", extra=detail)
            except Exception:
                # A mistake of ours. Where the stream stopped it would only be made again.
                self._version = ""
                self.stats.errors += 1
                log.exception("watch failed", extra={"plural": self._resource.plural})
            if self._away_since is None:
                self._away_since = self._clock()
            await asyncio.sleep(self._backoff.delay(at_least=wait))

    async def relist(self) -> None:
        """Compare the collection and repair what the watch lost, as if it had come as events.

        The versions of all objects are read, and what is in them only of those that differ. The
        watch goes on meanwhile; whatever it brought that is newer than the list stands. Does
        nothing before the cache is synced and while another call or a full replacement runs.

        Raises:
            ApiError: the list failed; nothing was changed.
        """
        if self._buried is not None or not self._version:
            return
        self._buried = {}
        lists, known = self.stats.lists, as_number(self._version)
        try:
            versions, version = await self._list(self._as_listed, is_metadata=True)
            self.stats.polls += 1
            if as_number(version) < known:
                # A list is read from a quorum, so it cannot be older than what we have been
                # shown, unless somebody replays the past.
                self.stats.stale += 1
                return
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
                    # Whatever a watch that lags has still to bring is the past from now on.
                    self._version = version
        finally:
            self._buried = None

    async def _follow(self) -> None:
        """One attempt: the whole collection if we have no version, then one stream to its end."""
        if not self._version and not self._streams_lists:
            self._replace(*await self._list(self._transform))
        if self._version:
            await self._consume_changes()
        else:
            await self._consume_everything()

    async def _consume_everything(self) -> None:
        """A stream that begins with the whole collection (saves the memory of one huge list)."""
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
        """Take in one stream; returns whether `filling`, if given, was completed."""
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
            # Without its objects a collection has not been answered.
            opened=self._answered if self._version else _ignore,
        )

    def _answered(self) -> None:
        self._away_since = None

    async def _list(
        self, transform: Transform, *, is_metadata: bool = False
    ) -> tuple[Sequence[Kept], str]:
        return await self._client.list(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            is_metadata=is_metadata,
            transform=transform,
        )

    async def _read(self, one: Kept, listed: str) -> Sequence[Kept]:
        """The object as it is now; none if it is gone, or none of the collection any more, or what
        was read is older than what was `listed`."""
        namespace, name = key_of(one)
        # A list of one: it needs no further permission, and goes by the labels.
        found, version = await self._client.list(
            self._resource,
            namespace or None,
            label_selector=self._label_selector,
            field_selector=f"metadata.name={name}",
            transform=self._transform,
        )
        return found if as_number(version) >= as_number(listed) else []

    def _as_listed(self, obj: Object) -> Kept:
        """What `relist` compares: of fifty thousand objects nearly all are the very ones kept."""
        metadata = obj["metadata"]
        compared = ("namespace", "name", "resourceVersion")
        return self._kept(obj) or {
            "metadata": {key: metadata[key] for key in compared if key in metadata}
        }

    def _kept(self, obj: Object) -> Kept | None:
        """The very object that is kept, if it is the one that was read."""
        kept = self._store.get(key_of(obj))
        if kept and kept["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
            return kept
        return None

    def _is_behind(self, one: Kept) -> bool:
        """Whether what is kept of an object, if anything, is older than the version listed."""
        kept = self._store.get(key_of(one))
        buried = (self._buried or {}).get(key_of(one), -1)
        return version_of(one) > (buried if kept is None else version_of(kept))

    def _take(self, kind: str, obj: Object) -> None:
        """One event of the watch."""
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
                # Mostly the echo of an own write, which is kept already.
                self._upsert(self.recognise(obj))
        # Only what follows a fill proves that versions lead somewhere. The fill itself does not:
        # resetting there would turn a server that always answers 410 into a hot loop.
        self._backoff.reset()
        self._empty_streams = 0
        self._version = version

    def _replace(self, objects: Iterable[Kept], version: str) -> None:
        """Make the cache equal to a whole collection; the difference goes to subscribers."""
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
        """Take in what has changed, and drop what was not among the `present` at `version`."""
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
        """Keep `obj` unless it is known already or older than what is kept."""
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
            # The same name, another object: whoever counted on the old one must hear of its end.
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
        """What is kept of an object; of one that cannot be read its metadata and the reason."""
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
        """The index, which finds an object under nothing where it cannot read it."""

        def values(obj: Kept) -> Iterable[str]:
            try:
                return list(index(obj))
            except Exception as error:
                self._blame(obj, "an object cannot be indexed", error)
                return ()

        return values

    def _blame(self, obj: Kept, what: str, error: Exception) -> None:
        """Name the object at fault. Anybody may write one, so it is worth a line and no more."""
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
    """A collection that arrives as a stream; changes may already be mixed in."""

    objects: dict[Key, Kept]

    def take(self, kind: str, obj: Object, transform: Transform) -> bool:
        """Take one event in; returns whether it was the one that ends the collection."""
        if kind == BOOKMARK:
            return _INITIAL_END in obj["metadata"].get("annotations", {})
        if kind == DELETED:
            self.objects.pop(key_of(obj), None)
        else:
            self.objects[key_of(obj)] = transform(obj)
        return False


def _ignore() -> None:
    return None
