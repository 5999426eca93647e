"""One object that cannot be read is one object: the watch goes on, and all others are there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest
from typing_extensions import override

from di_kube.cache import UNREADABLE, WatchCache
from di_kube.client import KubeClient
from di_kube.resources import PODS
from di_kube.watch_limits import WatchLimits
from di_kube.wire import Object
from tests.unit.asynchronous import asynchronous
from tests.waiting import wait_until_async

BAD = "bad"


def body(name: str, version: int) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"ports": ["x"]}}


def choose_transform(obj: Object) -> Object:
    if obj["metadata"]["name"] == BAD:
        raise AttributeError("'str' object has no attribute 'get'")
    return obj


def fail_on_bad(_: str, obj: Object) -> None:
    choose_transform(obj)


class Stream:
    """A server that shows some objects and then one change after the other."""

    def __init__(self, *names: str) -> None:
        self.streams = 0
        self.names = names
        self.events: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[tuple[str, Object], None]:
        self.streams += 1
        for version, name in enumerate(self.names, 1):
            yield "ADDED", body(name, version)
        end = {"k8s.io/initial-events-end": "true"}
        yield "BOOKMARK", {"metadata": {"resourceVersion": "9", "annotations": end}}
        while True:
            yield await self.events.get()


async def followed(cache: WatchCache, stream: Stream, *events: tuple[str, Object]) -> None:
    """Fill the cache and let it take the events, the last of which must arrive."""
    running = asyncio.create_task(cache.run())
    for event in events:
        stream.events.put_nowait(event)
    last = events[-1][1]["metadata"]["resourceVersion"]
    try:
        await wait_until_async(lambda: cache.resource_version == last, what="the last event")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def cache_of(stream: Stream, **parts: Any) -> WatchCache:
    return WatchCache(
        cast("KubeClient", stream),
        PODS,
        clock=asyncio.get_running_loop().time,
        rng=Random(1),
        limits=WatchLimits(backoff_minimum=0.001, backoff_maximum=0.001),
        **parts,
    )


@asynchronous
async def test_an_object_that_cannot_be_transformed_is_marked_unreadable() -> None:
    stream = Stream("a", BAD, "b")
    cache = cache_of(stream, transform=choose_transform)
    await followed(cache, stream, ("MODIFIED", body(BAD, 10)), ("ADDED", body("c", 11)))
    assert stream.streams == 1
    assert sorted(each["metadata"]["name"] for each in cache.items()) == ["a", "b", BAD, "c"]
    bad = cache.get("ns", BAD)
    assert bad is not None
    assert bad == {
        "metadata": body(BAD, 10)["metadata"],
        UNREADABLE: "AttributeError: 'str' object has no attribute 'get'",
    }
    assert cache.stats.unreadable == 2


def test_an_object_that_cannot_be_indexed_is_in_no_index() -> None:
    def index(obj: Object) -> Iterable[str]:
        choose_transform(obj)
        yield "x"

    async def scenario() -> None:
        stream = Stream("a", BAD)
        cache = cache_of(stream, indexes={"all": index})
        await followed(cache, stream, ("DELETED", body(BAD, 10)))
        assert [each["metadata"]["name"] for each in cache.by_index("all", "x")] == ["a"]
        assert [each["metadata"]["name"] for each in cache.items()] == ["a"]

    asyncio.run(scenario())


def test_a_failing_subscriber_stops_neither_watch_nor_subscribers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    async def scenario() -> None:
        stream = Stream("a", BAD)
        cache = cache_of(stream)
        cache.subscribe(fail_on_bad)
        cache.subscribe(lambda _, obj: heard.append(obj["metadata"]["name"]))
        await followed(cache, stream, ("ADDED", body("b", 10)))
        assert stream.streams == 1

    asyncio.run(scenario())
    assert heard == ["a", BAD, "b"]
    assert [record.object for record in caplog.records if hasattr(record, "object")] == [BAD]


def test_the_watch_goes_on_after_an_unexpected_exception() -> None:
    class Broken(Stream):
        @override
        async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[tuple[str, Object], None]:
            if self.streams == 0:
                self.streams += 1
                raise ZeroDivisionError("a mistake of ours")
            async for event in super().watch():
                yield event

    async def scenario() -> None:
        stream = Broken("a")
        cache = cache_of(stream)
        await followed(cache, stream, ("ADDED", body("b", 10)))
        assert len(cache) == 2
        assert cache.stats.errors == 1

    asyncio.run(scenario())
