"""The watch cache against the real API server, over a network that fails on command."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from di_cluster.cluster import Cluster
from di_kube.cache import Transform, WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig, load_config
from di_kube.errors import Gone, Throttled, Unavailable
from di_kube.resources import CONFIGMAPS
from di_kube.store import Index, Kept
from di_kube.watch_limits import WatchLimits
from di_kube.wire import Object
from tests.failures.clusters import running
from tests.fakes.network import Network
from tests.waiting import DEADLINE, wait_until, wait_until_async

FAST = WatchLimits(silence=1.0, backoff_minimum=0.01, backoff_maximum=0.2)


@asynccontextmanager
async def following(
    client: KubeClient,
    namespace: str,
    *,
    label_selector: str | None = None,
    transform: Transform | None = None,
    indexes: dict[str, Index] | None = None,
    limits: WatchLimits | None = None,
) -> AsyncIterator[WatchCache]:
    cache = WatchCache(
        client,
        CONFIGMAPS,
        namespace=namespace,
        label_selector=label_selector,
        transform=transform,
        indexes=indexes,
        clock=time.monotonic,
        rng=random.Random(1),
        limits=limits,
    )
    task = asyncio.create_task(cache.run())
    try:
        await asyncio.wait_for(cache.synced.wait(), DEADLINE)
        yield cache
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def configmap(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


async def truth(client: KubeClient, namespace: str) -> dict[str, Object]:
    items, _ = await client.list(CONFIGMAPS, namespace)
    return {item["metadata"]["name"]: item for item in items}


def held(cache: WatchCache) -> dict[str, Kept]:
    return {item["metadata"]["name"]: item for item in cache.items()}


async def wait_until_same(client: KubeClient, namespace: str, cache: WatchCache) -> None:
    async def same() -> bool:
        return await truth(client, namespace) == held(cache)

    await wait_until_async(same, what="the cache to hold what the server has")


def test_it_follows_creates_changes_and_deletes(kube_config: KubeConfig, namespace: str) -> None:
    seen: list[tuple[str, str]] = []

    async def main() -> None:
        async with KubeClient(config=kube_config) as client:
            await client.create(CONFIGMAPS, configmap("before"), namespace)
            async with following(client, namespace) as cache:
                assert cache.get(namespace, "before") is not None
                # kube-root-ca.crt comes to every namespace at a time of its own.
                cache.subscribe(
                    lambda kind, obj: (
                        seen.append((kind, obj["metadata"]["name"]))
                        if obj["metadata"]["name"] == "a"
                        else None
                    )
                )
                await client.create(CONFIGMAPS, configmap("a", color="red"), namespace)
                await client.patch(CONFIGMAPS, "a", {"data": {"color": "blue"}}, namespace)
                await wait_until_async(lambda: len(seen) == 2)
                found = cache.get(namespace, "a")
                assert found is not None
                assert found["data"] == {"color": "blue"}
                await client.delete(CONFIGMAPS, "a", namespace)
                await wait_until_async(lambda: len(seen) == 3)
                assert cache.get(namespace, "a") is None
                await wait_until_same(client, namespace, cache)
                assert cache.stats.lists == 1
                assert cache.stats.errors == 0
        assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    asyncio.run(main())


def test_it_keeps_what_the_selector_and_the_transform_leave(
    kube_config: KubeConfig, namespace: str
) -> None:
    def only_metadata(obj: Object) -> Object:
        return {"metadata": obj["metadata"]}

    def colors(obj: Object) -> list[str]:
        return list(obj["metadata"]["labels"].values())

    async def main() -> None:
        async with KubeClient(config=kube_config) as client:
            for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
                body = configmap(name, labels={"color": color}, big="x" * 1000)
                await client.create(CONFIGMAPS, body, namespace)
            async with following(
                client,
                namespace,
                label_selector="color",
                transform=only_metadata,
                indexes={"color": colors},
            ) as cache:
                assert sorted(held(cache)) == ["a", "b", "c"]
                assert all(set(obj) == {"metadata"} for obj in cache.items())
                red = [obj["metadata"]["name"] for obj in cache.by_index("color", "red")]
                assert sorted(red) == ["a", "c"]
                patch = {"metadata": {"labels": {"color": None}}}
                await client.patch(CONFIGMAPS, "a", patch, namespace)
                await wait_until_async(lambda: len(cache.by_index("color", "red")) == 1)
                assert cache.get(namespace, "a") is None, "it left the selection"

    asyncio.run(main())


def test_a_half_open_connection_is_noticed_and_resumed(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def main() -> None:
        async with (
            KubeClient(config=kube_config) as direct,
            Network(kube_config) as network,
            KubeClient(config=network.config, timeout=2) as client,
            following(client, namespace, limits=FAST) as cache,
        ):
            network.freeze()
            await direct.create(CONFIGMAPS, configmap("unseen"), namespace)
            # What is made after this passes; the frozen stream itself never speaks again.
            network.restore()
            await wait_until_same(direct, namespace, cache)
            assert cache.stats.lists == 1
            assert cache.stats.streams > 1

    asyncio.run(main())


@pytest.fixture(scope="module")
def breakable() -> Iterator[Cluster]:
    """A control plane of this module's own, whose API server may be killed."""
    with running(Cluster(f"test-{secrets.token_hex(3)}", profile="control-plane")) as cluster:
        yield cluster


def kill_api_server(cluster: Cluster) -> None:
    def pid() -> int | None:
        return next(p.pid for p in cluster.status() if p.name == "kube-apiserver")

    running = pid()
    assert running is not None
    os.kill(running, signal.SIGKILL)
    wait_until(lambda: pid() is None, what="the API server to be gone")


async def is_gone(version: str, client: KubeClient) -> bool:
    """Whether the API server refuses to go on from a version."""
    try:
        async for _ in client.watch(
            CONFIGMAPS, "default", resource_version=version, timeout_seconds=5
        ):
            pass
    except Gone:
        return True
    except (Throttled, Unavailable):
        pass  # It has only just started.
    return False


def test_it_survives_a_restart_of_the_api_server_that_forgot_the_past(breakable: Cluster) -> None:
    config = load_config(str(breakable.kubeconfig))
    seen: list[tuple[str, str]] = []

    def note(kind: str, obj: Object) -> None:
        # kube-root-ca.crt comes to every namespace at a time of its own.
        if obj["metadata"]["name"] in ("kept", "lost", "new"):
            seen.append((kind, obj["metadata"]["name"]))

    async def main() -> None:
        async with (
            KubeClient(config=config) as direct,
            Network(config) as network,
            KubeClient(config=network.config, timeout=2) as client,
        ):
            for name in ("kept", "lost"):
                await direct.create(CONFIGMAPS, configmap(name), "default")
            async with following(client, "default", limits=FAST) as cache:
                cache.subscribe(note)
                old_version = cache.resource_version
                network.close()
                await direct.delete(CONFIGMAPS, "lost", "default")
                await direct.create(CONFIGMAPS, configmap("new"), "default")
                # A new API server remembers no events from before its start: our version is
                # answered with a true 410.
                await asyncio.to_thread(kill_api_server, breakable)
                await asyncio.to_thread(breakable.up)
                await wait_until_async(lambda: is_gone(old_version, direct))
                network.restore()
                await wait_until_same(direct, "default", cache)
                assert cache.stats.lists == 2
                assert sorted(seen) == [("ADDED", "new"), ("DELETED", "lost")]

    asyncio.run(main())
