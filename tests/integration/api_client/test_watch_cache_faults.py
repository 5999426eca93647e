"""The watch cache against a server that misbehaves on command (the real one never would)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from aiohttp import web

from di_kube.cache import MODIFIED, WatchCache
from di_kube.client import KubeClient
from di_kube.resources import CONFIGMAPS
from di_kube.watch_limits import WatchLimits
from di_kube.wire import Object
from tests.fakes.misbehaving import (
    MisbehavingServer,
    Reply,
    bookmark,
    configmap,
    gone_event,
    line,
    refuse,
)
from tests.waiting import wait_until_async

FAST = WatchLimits(silence=0.4, stream=60, backoff_minimum=0.004, backoff_maximum=0.5, empty=5)
# So long that a busy machine does not take a stream for a dead one.
QUIET = replace(FAST, silence=2.0)
Body = Callable[[MisbehavingServer, WatchCache], Awaitable[None]]


@asynccontextmanager
async def running(cache: WatchCache) -> AsyncIterator[None]:
    task = asyncio.create_task(cache.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def cached(
    prepare: Callable[[MisbehavingServer], None],
    body: Body,
    *,
    limits: WatchLimits = FAST,
    streaming_lists: bool = False,
) -> None:
    """Run `body` with a cache that follows a server made to misbehave by `prepare`."""

    async def main() -> None:
        async with MisbehavingServer(streaming_lists=streaming_lists) as server:
            prepare(server)
            async with KubeClient(config=server.config, timeout=60) as client:
                cache = WatchCache(
                    client,
                    CONFIGMAPS,
                    namespace="ns",
                    clock=time.monotonic,
                    rng=random.Random(1),
                    limits=limits,
                )
                async with running(cache):
                    await body(server, cache)

    asyncio.run(main())


def same(server: MisbehavingServer, cache: WatchCache) -> bool:
    """Whether the cache holds exactly what the server has."""
    return {obj["metadata"]["name"]: obj for obj in cache.items()} == server.objects


def status_410(server: MisbehavingServer) -> Reply:
    return refuse(410, "Expired")


def event_410(server: MisbehavingServer) -> Reply:
    return server.say(gone_event())


@pytest.mark.parametrize("streaming_lists", [False, True])
@pytest.mark.parametrize("gone", [status_410, event_410])
def test_gone_leads_to_one_list_with_synthetic_deletes(
    gone: Callable[[MisbehavingServer], Reply], streaming_lists: bool
) -> None:
    seen: list[tuple[str, str]] = []

    def prepare(server: MisbehavingServer) -> None:
        server.put("kept")
        server.put("lost")

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await cache.synced.wait()
        cache.subscribe(lambda kind, obj: seen.append((kind, obj["metadata"]["name"])))
        await wait_until_async(lambda: server.streams == 1)
        server.remove("lost", tell=False)
        server.put("new", tell=False)
        server.watch_script = [gone(server)]
        if streaming_lists:
            # The stream that carries the new list is healthy again.
            server.watch_script.append(server.healthy)
        # End the healthy stream the way a server does when it is stopped: an orderly cut.
        server.send("ERROR", {"metadata": {}, "code": 500, "reason": "InternalError"})
        await wait_until_async(lambda: cache.stats.lists == 2 and same(server, cache))
        server.put("after")
        await wait_until_async(lambda: same(server, cache))
        assert sorted(seen) == [("ADDED", "after"), ("ADDED", "new"), ("DELETED", "lost")]
        assert cache.stats.lists == 2

    cached(prepare, body, streaming_lists=streaming_lists)


def test_three_empty_streams_lead_to_one_list() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("lost")
        server.watch_script = [server.empty, server.empty, server.empty]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await cache.synced.wait()
        server.remove("lost", tell=False)
        await wait_until_async(lambda: server.streams == 1)
        assert same(server, cache)
        assert len(server.lists) == 2
        assert len(server.watches) == 4

    cached(prepare, body)


def empty_for_ever(server: MisbehavingServer) -> Reply:
    return server.empty


@pytest.mark.parametrize("streaming_lists", [False, True])
@pytest.mark.parametrize("fault", [status_410, event_410, empty_for_ever])
def test_a_fault_that_stays_makes_no_hot_loop(
    fault: Callable[[MisbehavingServer], Reply], streaming_lists: bool
) -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("a")
        server.watch_default = fault(server)

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: len(server.watches) >= 8)
        # Each wait is at least half of a doubling step, whatever the machine's speed.
        for step, interval in enumerate(server.intervals()[:7]):
            assert interval >= 0.004 * 2**step / 2
        assert len(server.lists) <= len(server.watches) + 1

    cached(prepare, body, streaming_lists=streaming_lists)


@pytest.mark.parametrize("streaming_lists", [False, True])
def test_a_silent_stream_is_resumed_without_a_list_or_a_warning(
    caplog: pytest.LogCaptureFixture, streaming_lists: bool
) -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("a")
        server.watch_script = [server.silent]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await cache.synced.wait()
        await wait_until_async(lambda: server.streams == 1)
        assert server.intervals()[0] >= QUIET.silence
        # A stream that begins with the whole collection goes on as a watch from there.
        began = server.watches[0].get("resourceVersion", str(server.version))
        assert server.watches[1]["resourceVersion"] == began
        server.put("b")
        await wait_until_async(lambda: same(server, cache))
        assert cache.stats.lists == 1
        # What an idle API server does is no failure, and its answer is one.
        assert (cache.stats.errors, cache.away) == (0, 0)

    # A busy machine that does not answer in time would be a failure, and a warning.
    cached(prepare, body, limits=QUIET, streaming_lists=streaming_lists)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_bookmarks_keep_a_quiet_stream_alive_and_move_the_version() -> None:
    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)
        end = time.monotonic() + 1.5 * QUIET.silence
        for version in range(200, 1000):
            server.send("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
            await asyncio.sleep(0.04)
            if time.monotonic() > end:
                break
        await wait_until_async(lambda: cache.resource_version == str(version))
        assert len(server.watches) == 1
        assert cache.away == 0

    cached(lambda server: None, body, limits=QUIET)


def test_a_stream_cut_a_hundred_times_loses_nothing_and_lists_once() -> None:
    cuts = 100

    def prepare(server: MisbehavingServer) -> None:
        server.put("start")

        def one_event(number: int) -> Reply:
            async def reply(request: web.Request) -> web.StreamResponse:
                obj = server.put(f"o{number}", tell=False)
                half = line("ADDED", configmap("torn", uid="torn", version=9999, data={}))[:40]
                torn = [half] if number % 2 else []
                return await server.say(line("ADDED", obj), *torn, cut=True)(request)

            return reply

        server.watch_script = [one_event(number) for number in range(cuts)]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)
        assert len(cache) == cuts + 1
        assert same(server, cache)
        assert len(server.lists) == 1
        assert cache.stats.streams > cuts
        versions = [int(watch["resourceVersion"]) for watch in server.watches]
        assert versions == list(range(101, 101 + cuts + 1)), "each resumes where the last ended"

    cached(prepare, body)


def test_a_replay_of_the_past_changes_nothing() -> None:
    seen: list[str] = []

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        old = server.put("a", color="old")
        await wait_until_async(lambda: server.streams == 1)
        server.remove("a")
        recreated = server.put("a", color="new")
        await wait_until_async(lambda: same(server, cache))
        cache.subscribe(lambda kind, obj: seen.append(kind))
        server.send("ADDED", old)
        server.send("DELETED", {**old, "metadata": {**old["metadata"], "resourceVersion": "102"}})
        server.put("marker")
        await wait_until_async(lambda: cache.get("ns", "marker") is not None)
        assert cache.get("ns", "a") == recreated
        assert seen == ["ADDED"], "only the marker"
        assert cache.stats.stale == 2

    cached(lambda server: None, body)


def test_retry_after_is_honoured() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.watch_script = [refuse(429, "TooManyRequests", {"Retry-After": "1"})]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)
        assert server.intervals()[0] >= 1.0

    cached(prepare, body)


def test_the_first_list_is_tried_until_it_succeeds() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("a")
        server.list_script = [
            refuse(500, "InternalError"),
            refuse(503, "ServiceUnavailable"),
            refuse(403, "Forbidden"),
            refuse(401, "Unauthorized"),
            refuse(404, "NotFound"),
        ]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        assert cache.away >= 0
        assert not cache.synced.is_set()
        await cache.synced.wait()
        assert same(server, cache)
        assert cache.stats.errors == 5

    cached(prepare, body)


def test_a_poll_repairs_what_the_watch_never_told() -> None:
    seen: list[tuple[str, str]] = []

    def prepare(server: MisbehavingServer) -> None:
        server.put("stays")
        server.put("vanishes")
        server.put("changes", color="old")

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)
        cache.subscribe(lambda kind, obj: seen.append((kind, obj["metadata"]["name"])))
        server.remove("vanishes", tell=False)
        server.put("changes", tell=False, color="new")
        server.put("appears", tell=False)
        await cache.relist()
        assert same(server, cache)
        assert sorted(seen) == [
            ("ADDED", "appears"),
            ("DELETED", "vanishes"),
            ("MODIFIED", "changes"),
        ]
        assert cache.stats.repairs == 3
        await cache.relist()
        assert len(seen) == 3, "a second poll finds nothing"
        assert cache.stats.polls == 2
        assert len(server.watches) == 1, "the watch was left alone"

    cached(prepare, body, limits=QUIET)


def test_a_poll_does_not_undo_what_the_watch_told_meanwhile() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("deleted")
        server.put("changed", color="old")

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)

        async def slow_list(request: web.Request) -> web.StreamResponse:
            answer = await server.listing(request)
            server.remove("deleted")
            server.put("changed", color="new")
            server.put("created")
            server.put("brief")
            server.remove("brief")
            await wait_until_async(lambda: cache.resource_version == str(server.version))
            return answer

        server.list_script = [slow_list]
        await cache.relist()
        assert same(server, cache)
        assert cache.stats.repairs == 0

    cached(prepare, body)


def test_a_poll_that_shows_the_past_is_ignored() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("a")

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)
        past: list[web.StreamResponse] = []

        async def old_list(request: web.Request) -> web.StreamResponse:
            return past[0]

        past.append(server.page())
        server.remove("a")
        server.put("b")
        await wait_until_async(lambda: same(server, cache))
        server.list_script = [old_list]
        await cache.relist()
        assert same(server, cache)
        assert cache.stats.stale == 1

    cached(prepare, body)


def test_expired_pages_are_read_again_from_the_start() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("a")

        async def first_page(request: web.Request) -> web.StreamResponse:
            ghost: Object = configmap("ghost", uid="ghost", version=1, data={})
            return web.json_response(
                {"metadata": {"resourceVersion": "1", "continue": "token"}, "items": [ghost]}
            )

        server.list_script = [first_page, refuse(410, "Expired")]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await cache.synced.wait()
        assert same(server, cache)
        assert [query.get("continue") for query in server.lists] == [None, "token", None]

    cached(prepare, body)


def test_a_server_that_ignores_streaming_lists_is_read_by_pages() -> None:
    def prepare(server: MisbehavingServer) -> None:
        server.put("a")

        async def forgets_the_end(request: web.Request) -> web.StreamResponse:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(bookmark(101))
            return stream

        server.watch_script = [forgets_the_end]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        await wait_until_async(lambda: server.streams == 1)
        assert same(server, cache)
        assert len(server.lists) == 1

    cached(prepare, body, streaming_lists=True)


def test_others_get_their_turn_while_a_thousand_changes_come_at_once() -> None:
    turns: list[int] = [0]
    seen: Counter[int] = Counter()

    def prepare(server: MisbehavingServer) -> None:
        changes = [
            (MODIFIED, configmap("x", uid="u", version=200 + number, data={}))
            for number in range(1000)
        ]
        server.watch_script = [server.say(b"".join(line(*change) for change in changes))]

    async def body(server: MisbehavingServer, cache: WatchCache) -> None:
        async def others() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        cache.subscribe(lambda _kind, _obj: seen.update(turns))
        beside = asyncio.create_task(others())
        await wait_until_async(lambda: seen.total() == 1000)
        beside.cancel()
        assert max(seen.values()) <= 100

    cached(prepare, body)
