"""The watch brings what was written here as well: it is recognised, and not read a second time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import cast

from di_api.kube.cache import WatchCache
from di_api.kube.client import KubeClient
from di_api.kube.resources import CONFIGMAPS
from di_api.kube.wire import Object
from tests.unit.kube.test_cache import ScriptedServer, settle


def test_the_echo_of_an_own_write_is_not_transformed_again() -> None:
    server, read = ScriptedServer(), list[str]()

    def transform(obj: Object) -> Object:
        read.append(obj["metadata"]["resourceVersion"])
        return {**obj, "data": {}}

    async def main() -> None:
        cache = WatchCache(
            cast(KubeClient, server),
            CONFIGMAPS,
            transform=transform,
            clock=lambda: 0.0,
            rng=Random(0),
        )
        run = asyncio.create_task(cache.run())
        await settle(cache.synced.is_set)
        for _ in range(3):
            cache.absorb(server.write("own", tell=True))
            kept = cache.get("ns", "own")
            await settle(lambda: cache.resource_version == str(server.version))
            assert cache.get("ns", "own") is kept
        server.write("another", tell=True)
        await settle(lambda: cache.get("ns", "another") is not None)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run

    asyncio.run(main())
    assert read == ["1", "2", "3", "4"]
