"""Whatever a server does to its watches, the cache ends up right; no sockets, no waiting.

A scripted API server keeps the truth and a history. Random scripts write, delete, re-create, cut,
forget, lose events, replay the past and poll; at the end the cache, and a replica built from what
subscribers were told, must equal the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from random import Random
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from di_api.kube.cache import WatchCache, WatchLimits
from di_api.kube.client import KubeClient
from di_api.kube.errors import Gone, Unavailable
from di_api.kube.resources import CONFIGMAPS
from di_api.kube.wire import Object

Event = tuple[str, Object]
NAMES = ["a", "b", "c"]
STEPS = ["write", "delete", "lose", "lose delete", "cut", "forget", "replay", "poll", "absorb"]


class ScriptedServer:
    """The two calls of a client that a cache makes."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, Object] = {}
        self.told: list[Event] = []
        self.oldest = 0
        self.stream: asyncio.Queue[Event | Exception] = asyncio.Queue()

    def write(self, name: str, *, tell: bool) -> Object:
        self.version += 1
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        self.objects[name] = self._stamp(name, uid)
        self._record(tell, "MODIFIED" if old else "ADDED", self.objects[name])
        return self.objects[name]

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

    async def list(self, *_: Any, **__: Any) -> tuple[list[Object], str]:
        await asyncio.sleep(0)
        answer = list(self.objects.values()), str(self.version)
        await asyncio.sleep(0)
        return answer

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


def by_name(cache: WatchCache) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in cache.items()}


async def play(steps: list[tuple[str, str, int]]) -> None:
    server, replica = ScriptedServer(), Replica()
    limits = WatchLimits(backoff_minimum=0, backoff_maximum=0)
    cache = WatchCache(
        cast(KubeClient, server), CONFIGMAPS, clock=lambda: 0.0, rng=Random(0), limits=limits
    )
    cache.subscribe(replica)
    run = asyncio.create_task(cache.run())
    polls: list[asyncio.Task[None]] = []
    try:
        for step, name, pauses in steps:
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
                    cache.absorb(server.write(name, tell=True))
                case _:
                    raise AssertionError(f"unknown step {step}")
            for _ in range(pauses):
                await asyncio.sleep(0)
        await asyncio.gather(*polls)
        server.write("marker", tell=True)
        await settle(lambda: cache.resource_version == str(server.version))
        # Only a poll can find what no watch will ever tell.
        await cache.relist()
        assert by_name(cache) == server.objects
        assert replica.objects == server.objects
        assert not run.done()
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES), st.integers(0, 12)), max_size=30
    )
)
def test_the_cache_and_its_subscribers_end_up_with_the_truth(
    steps: list[tuple[str, str, int]],
) -> None:
    asyncio.run(play(steps))


def test_the_same_name_with_another_uid_is_an_end_and_a_beginning() -> None:
    async def main() -> None:
        server = ScriptedServer()
        told: list[tuple[str, str]] = []
        old = server.write("a", tell=True)["metadata"]["uid"]
        limits = WatchLimits(backoff_minimum=0, backoff_maximum=0)
        cache = WatchCache(
            cast(KubeClient, server), CONFIGMAPS, clock=lambda: 0.0, rng=Random(0), limits=limits
        )
        run = asyncio.create_task(cache.run())
        await settle(cache.synced.is_set)
        cache.subscribe(lambda kind, obj: told.append((kind, obj["metadata"]["uid"])))
        server.delete("a", tell=False)
        new = server.write("a", tell=True)["metadata"]["uid"]
        await settle(lambda: len(told) == 2)
        assert told == [("DELETED", old), ("ADDED", new)]
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run

    asyncio.run(main())
