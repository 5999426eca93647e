"""The cache is right in the end whatever a server does to its watches; no sockets, no waiting.

A scripted API server keeps the truth and a history. Random scripts write, delete, re-create, cut,
forget, lose events, replay the past and poll; at the end the cache, and a replica built from what
subscribers were notified of, must equal the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import Gone, Silent, Unavailable
from di_kube.pages import Version
from di_kube.resources import CONFIGMAPS
from di_kube.store import Kept
from di_kube.watch_limits import WatchLimits
from di_kube.wire import Object
from tests.unit.asynchronous import asynchronous

Event = tuple[str, Object]
NAMES = ["a", "b"]
LOSSLESS = ["write", "delete", "cut", "forget", "replay", "poll", "absorb", "peek"]
LOSSY = [*LOSSLESS, "lose", "lose delete"]


class ScriptedServer:
    """The two calls of a client that a cache makes."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, Object] = {}
        self.told: list[Event] = []
        self.oldest = 0
        self.last: Object | None = None
        self.peeked: tuple[list[Object], str] = ([], "0")
        self.lists_read = 0
        self.list_is_held: asyncio.Event | None = None
        self.stream: asyncio.Queue[Event | Exception] = asyncio.Queue()

    def write(self, name: str, *, tell: bool) -> Object:
        self.version += 1
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        self.objects[name] = self._stamp(name, uid)
        self.last = self.objects[name]
        self._record(tell, "MODIFIED" if old else "ADDED", self.last)
        return self.last

    def delete(self, name: str, *, tell: bool) -> None:
        old = self.objects.pop(name, None)
        if old is not None:
            self.version += 1
            self._record(tell, "DELETED", self._stamp(name, old["metadata"]["uid"]))

    def _stamp(self, name: str, uid: str) -> Object:
        return {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": uid,
                "resourceVersion": str(self.version),
            }
        }

    def _record(self, tell: bool, kind: str, obj: Object) -> None:
        if tell:
            self.told.append((kind, obj))
            self.stream.put_nowait((kind, obj))

    async def list(
        self, *_: Any, field_selector: str = "", transform: Callable[[Object], Object], **__: Any
    ) -> tuple[list[Object], str]:
        await asyncio.sleep(0)
        wanted = field_selector.removeprefix("metadata.name=")
        found = [obj for name, obj in self.objects.items() if wanted in ("", name)]
        answer = list(map(transform, found)), str(self.version)
        self.lists_read += 1
        await asyncio.sleep(0)
        if self.list_is_held is not None:
            await self.list_is_held.wait()
        return answer

    async def list_versions(
        self, *_: Any, transform: Callable[[Version], Object], **__: Any
    ) -> tuple[Sequence[Object], str]:
        def version(obj: Object) -> Object:
            metadata = obj["metadata"]
            return transform(
                Version(
                    namespace=metadata["namespace"],
                    name=metadata["name"],
                    resourceVersion=metadata["resourceVersion"],
                )
            )

        return await self.list(transform=version)

    async def watch(
        self, *_: Any, resource_version: str, send_initial_events: bool, **__: Any
    ) -> AsyncGenerator[Event, None]:
        self.stream = asyncio.Queue()
        await asyncio.sleep(0)
        if send_initial_events:
            self.stream = asyncio.Queue()
            objects, version = list(self.objects.values()), str(self.version)
            for obj in objects:
                yield "ADDED", obj
            end = {"k8s.io/initial-events-end": "true"}
            yield "BOOKMARK", {"metadata": {"resourceVersion": version, "annotations": end}}
        else:
            since = int(resource_version)
            if since < self.oldest:
                raise Gone(kind="ConfigMap", code=410)
            self.stream = asyncio.Queue()
            for kind, obj in list(self.told):
                if int(obj["metadata"]["resourceVersion"]) > since:
                    yield kind, obj
        while True:
            event = await self.stream.get()
            if isinstance(event, Exception):
                raise event
            yield event


class Replica:
    """What a subscriber makes of the events; each must fit to the ones before."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    def __call__(self, kind: str, obj: Object) -> None:
        name = obj["metadata"]["name"]
        assert (kind == "ADDED") == (name not in self.objects), (kind, name)
        if kind == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = obj


async def settle(done: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("the cache does not settle")


def by_name(cache: WatchCache) -> dict[str, Kept]:
    return {obj["metadata"]["name"]: obj for obj in cache.items()}


def perform(
    step: str, name: str, server: ScriptedServer, cache: WatchCache, polls: list[asyncio.Task[bool]]
) -> None:
    match step:
        case "write":
            server.write(name, tell=True)
        case "lose":
            server.write(name, tell=False)
        case "delete" | "lose delete":
            server.delete(name, tell=step == "delete")
        case "cut":
            server.stream.put_nowait(Unavailable(kind="ConfigMap", reason="WatchCut"))
        case "forget":
            server.oldest = server.version
            server.stream.put_nowait(Unavailable(kind="ConfigMap", reason="WatchCut"))
        case "replay":
            for event in server.told:
                server.stream.put_nowait(event)
        case "poll":
            polls.append(asyncio.create_task(cache.relist()))
        case "absorb":
            # The answer to a write of our own, maybe late: the object may be long gone.
            if server.last is not None:
                cache.absorb(server.last)
        case "peek":
            # The answer to a list of some objects, asked for at the last such step.
            objects, version = server.peeked
            cache.absorb_list(objects, version)
            server.peeked = (
                [server.objects[name]] if name in server.objects else [],
                str(server.version),
            )
        case _:
            raise AssertionError(f"unknown step {step}")


@asynccontextmanager
async def following(server: Any, **parts: Any) -> AsyncIterator[WatchCache]:
    """A cache that follows the server without waiting between attempts."""
    limits = WatchLimits(backoff_minimum=0, backoff_maximum=0)
    parts = {"clock": lambda: 0.0, "limits": limits, **parts}
    cache = WatchCache(cast(KubeClient, server), CONFIGMAPS, rng=Random(0), **parts)
    run = asyncio.create_task(cache.run())
    try:
        yield cache
        assert not run.done()
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run


@asynccontextmanager
async def filled(server: ScriptedServer) -> AsyncIterator[tuple[WatchCache, list[tuple[str, str]]]]:
    """A cache with all objects of the server, and the kinds and UIDs of events from now on."""
    events: list[tuple[str, str]] = []
    async with following(server) as cache:
        await settle(cache.synced.is_set)
        cache.subscribe(lambda kind, obj: events.append((kind, obj["metadata"]["uid"])))
        yield cache, events


async def play(steps: list[tuple[str, str, int]], *, lossy: bool) -> None:
    server, replica = ScriptedServer(), Replica()
    polls: list[asyncio.Task[bool]] = []
    async with following(server) as cache:
        cache.subscribe(replica)
        for step, name, pauses in steps:
            perform(step, name, server, cache, polls)
            for _ in range(pauses):
                await asyncio.sleep(0)
        await asyncio.gather(*polls)
        server.write("marker", tell=True)
        await settle(lambda: cache.resource_version == str(server.version))
        if lossy:
            # Only a poll can find what no watch will ever report.
            await cache.relist()
        assert by_name(cache) == server.objects
        assert replica.objects == server.objects


def scripts(steps: list[str]) -> st.SearchStrategy[list[tuple[str, str, int]]]:
    """Steps, each on a name and followed by so many turns of the event loop."""
    step = st.tuples(st.sampled_from(steps), st.sampled_from(NAMES), st.integers(0, 12))
    return st.lists(step, min_size=4, max_size=30)


@given(scripts(LOSSLESS))
def test_the_watch_alone_brings_the_cache_up_to_date(steps: list[tuple[str, str, int]]) -> None:
    asyncio.run(play(steps, lossy=False))


@given(scripts(LOSSY))
def test_a_poll_finds_lost_events(steps: list[tuple[str, str, int]]) -> None:
    asyncio.run(play(steps, lossy=True))


@asynchronous
async def test_another_uid_of_the_name_is_a_deletion_and_an_addition() -> None:
    server = ScriptedServer()
    old = server.write("a", tell=True)["metadata"]["uid"]
    async with filled(server) as (_, events):
        server.delete("a", tell=False)
        new = server.write("a", tell=True)["metadata"]["uid"]
        await settle(lambda: len(events) == 2)
        assert events == [("DELETED", old), ("ADDED", new)]


def test_a_silent_stream_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Mute:
        streams = 0

        async def watch(
            self, *_: Any, opened: Callable[[], None], **__: Any
        ) -> AsyncGenerator[Event, None]:
            self.streams += 1
            opened()
            for event in list[Event]():
                yield event
            raise Silent(kind="ConfigMap", reason="WatchSilent")

    async def main() -> None:
        server = Mute()
        async with following(server, clock=lambda: float(server.streams)) as cache:
            await settle(lambda: server.streams >= 5)
            assert cache.stats.errors >= 4
            assert cache.away >= 4, "no stream has brought the collection"

    asyncio.run(main())
    assert "watch failed" in caplog.text


class Quiet:
    """A server whose streams end at once, after which one opens on which nothing happens."""

    now = 0.0

    async def watch(
        self, *_: Any, opened: Callable[[], None], send_initial_events: bool, **__: Any
    ) -> AsyncGenerator[Event, None]:
        if send_initial_events:
            opened()
            end = {"k8s.io/initial-events-end": "true"}
            yield "BOOKMARK", {"metadata": {"resourceVersion": "1", "annotations": end}}
            raise Unavailable(kind="ConfigMap", reason="WatchCut")
        self.now += 60
        opened()
        await asyncio.Event().wait()


@asynchronous
async def test_an_open_stream_without_events_is_not_away() -> None:
    server = Quiet()
    async with following(server, clock=lambda: server.now) as cache:
        await settle(lambda: server.now > 0)
        assert cache.away == 0


@asynchronous
async def test_a_new_object_survives_the_deletion_event_of_the_old_one() -> None:
    server = ScriptedServer()
    old = server.write("a", tell=True)["metadata"]["uid"]
    async with filled(server) as (cache, events):
        server.delete("a", tell=True)
        created = server.write("a", tell=True)
        cache.absorb(created)
        assert cache.get("ns", "a") == created
        await settle(lambda: cache.resource_version == str(server.version))
        assert events == [("DELETED", old), ("ADDED", created["metadata"]["uid"])]


@asynchronous
async def test_a_late_answer_does_not_bring_a_deleted_object_back() -> None:
    server = ScriptedServer()
    async with filled(server) as (cache, _):
        created = server.write("a", tell=True)
        server.delete("a", tell=True)
        await settle(lambda: cache.resource_version == str(server.version))
        cache.absorb(created)
        assert cache.get("ns", "a") is None


@pytest.mark.parametrize("label", [None, "another"])
@asynchronous
async def test_a_response_without_the_label_of_the_watch_is_a_deletion(label: str | None) -> None:
    """The watch shows neither what becomes of such an object nor that it is gone."""
    server = ScriptedServer()
    labels = {"labels": {"colour": "red"}}
    server.write("a", tell=True)["metadata"] |= labels
    async with following(server, label_selector="colour=red") as cache:
        await settle(cache.synced.is_set)
        lost = server.write("a", tell=False)
        lost["metadata"] |= {} if label is None else {"labels": {"colour": label}}
        cache.absorb(lost)
        assert cache.get("ns", "a") is None
        restored = server.write("a", tell=False)
        restored["metadata"] |= labels
        cache.absorb(restored)
        assert cache.get("ns", "a") == restored


def test_a_poll_reads_up_to_64_differences_one_by_one() -> None:
    async def main(lost: int) -> int:
        server = ScriptedServer()
        for number in range(100):
            server.write(f"n{number}", tell=True)
        async with filled(server) as (cache, _):
            for number in range(lost):
                server.write(f"n{number}", tell=False)
            await cache.relist()
            assert by_name(cache) == server.objects
            assert cache.stats.repairs == lost
        return server.lists_read

    assert [asyncio.run(main(lost)) for lost in (0, 1, 64, 65)] == [1, 2, 65, 2]


@asynchronous
async def test_a_poll_compares_nothing_while_everything_is_listed_again() -> None:
    server = ScriptedServer()
    server.write("a", tell=True)
    async with filled(server) as (cache, _):
        server.list_is_held = asyncio.Event()
        poll = asyncio.create_task(cache.relist())
        await settle(lambda: server.lists_read == 1)
        server.oldest = server.version
        server.stream.put_nowait(Gone(kind="ConfigMap", code=410))
        await settle(lambda: cache.resource_version == "")
        server.list_is_held.set()
        assert not await poll
        await settle(lambda: cache.resource_version != "")
        assert await cache.relist()


@asynchronous
async def test_a_poll_overtaken_by_a_new_list_is_ignored() -> None:
    server = ScriptedServer()
    uid = server.write("a", tell=True)["metadata"]["uid"]
    async with filled(server) as (cache, events):
        server.list_is_held = asyncio.Event()
        poll = asyncio.create_task(cache.relist())
        await settle(lambda: server.lists_read == 1)
        assert not await cache.relist(), "nothing is compared while another poll runs"
        server.delete("a", tell=False)
        server.oldest = server.version
        server.stream.put_nowait(Gone(kind="ConfigMap", code=410))
        await settle(lambda: cache.stats.lists == 2)
        server.list_is_held.set()
        assert await poll
        assert events == [("DELETED", uid)], "the poll has read the past"


def test_the_event_of_an_own_write_is_not_transformed_again() -> None:
    server, read = ScriptedServer(), list[str]()

    def transform(obj: Object) -> Object:
        read.append(obj["metadata"]["resourceVersion"])
        return {**obj, "data": {}}

    async def main() -> None:
        async with following(server, transform=transform) as cache:
            await settle(cache.synced.is_set)
            for _ in range(3):
                cache.absorb(server.write("own", tell=True))
                kept = cache.get("ns", "own")
                await settle(lambda: cache.resource_version == str(server.version))
                assert cache.get("ns", "own") is kept
            server.write("another", tell=True)
            await settle(lambda: cache.get("ns", "another") is not None)

    asyncio.run(main())
    assert read == ["1", "2", "3", "4"]
