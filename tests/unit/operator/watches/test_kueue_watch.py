"""Kueue is available while Workloads are served, also without its other resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from structlog.testing import capture_logs

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import NotFound
from di_kube.resources import RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Resource
from di_operator.cluster.informer_state import InformerState
from di_operator.cluster.kueue_watch import KueueWatch
from di_operator.process.controller import JobKey
from tests.unit.operator.virtual_time import VirtualClock, in_virtual_time

KEY = JobKey("rl", "a")
PERIOD = 10.0
WORKLOAD = {"metadata": {"name": "a-core", "deletionTimestamp": "2026-01-01T00:00:00Z"}}


class Client:
    def __init__(self) -> None:
        self.served = {WORKLOADS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES}

    async def list(self, resource: Resource, *_: object, **__: object) -> tuple[list[Any], str]:
        if resource not in self.served:
            raise NotFound(kind=resource.kind, code=404)
        return [], "1"


class Cache:
    """Fills once its resource is served."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._resource = resource

    async def run(self) -> None:
        while self._resource not in self._client.served:
            await asyncio.sleep(1)
        self.synced.set()
        await asyncio.Event().wait()

    async def relist(self) -> bool:
        return self.synced.is_set()

    def get(self, namespace: str | None, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "value": 7}

    def subscribe(self, _: Callable[[str, Any], None]) -> None:
        """Bring no events."""


class Informers:
    def __init__(self) -> None:
        self.adopted = False
        self.woken = 0

    def adopt(self, resource: Resource, _: object) -> None:
        assert resource == WORKLOADS
        self.adopted = True

    def drop(self, resource: Resource) -> None:
        assert resource == WORKLOADS
        self.adopted = False

    def of_job(self, resource: Resource, key: tuple[str, str]) -> list[dict[str, Any]]:
        assert (resource, key) == (WORKLOADS, KEY)
        return [WORKLOAD]

    def wake_all(self) -> None:
        self.woken += 1


class Bench:
    def __init__(self) -> None:
        self.client = Client()
        self.informers = Informers()
        self.watch = KueueWatch(
            client=cast(KubeClient, self.client),
            informers=cast(InformerState, self.informers),
            make_cache=lambda resource: cast(WatchCache, Cache(self.client, resource)),
            namespace=None,
            period=PERIOD,
            clock=VirtualClock(),
        )


@in_virtual_time
async def test_workloads_are_followed_until_they_are_the_last_to_go() -> None:
    bench = Bench()
    task = asyncio.create_task(bench.watch.run())
    await asyncio.sleep(1)
    assert await bench.watch.relist()

    bench.client.served = {WORKLOADS}
    await asyncio.sleep(2 * PERIOD)
    kueue = bench.watch.known(KEY)
    assert kueue is not None
    assert (kueue.obstacle, kueue.workloads, kueue.flavor("gpu")) == (None, (WORKLOAD,), None)
    assert kueue.priority("high") is None

    bench.client.served = set()
    await asyncio.sleep(PERIOD)
    kueue = bench.watch.known(KEY)
    assert kueue is not None
    assert "is not installed" in (kueue.obstacle or "")
    assert not bench.informers.adopted
    task.cancel()


@in_virtual_time
async def test_kinds_that_come_after_workloads_are_followed_too() -> None:
    bench = Bench()
    bench.client.served = {WORKLOADS}
    task = asyncio.create_task(bench.watch.run())
    await asyncio.sleep(1)
    assert await bench.watch.relist()
    woken = bench.informers.woken

    bench.client.served = {WORKLOADS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES}
    await asyncio.sleep(PERIOD)
    kueue = bench.watch.known(KEY)
    assert kueue is not None
    assert (kueue.flavor("gpu"), kueue.priority("high")) != (None, None)
    assert bench.informers.woken > woken
    task.cancel()


@in_virtual_time
async def test_kueue_is_logged_once_as_available_and_its_changes_as_changes() -> None:
    bench = Bench()
    with capture_logs() as logs:
        task = asyncio.create_task(bench.watch.run())
        await asyncio.sleep(1)
        bench.client.served = {WORKLOADS, RESOURCE_FLAVORS}
        await asyncio.sleep(2 * PERIOD)
        task.cancel()
    assert [(each["event"], each.get("gone")) for each in logs] == [
        ("Kueue is available", None),
        ("resources of Kueue have changed", ["workloadpriorityclasses"]),
    ]


@in_virtual_time
async def test_a_kind_that_goes_before_its_first_list_ends_no_watch() -> None:
    bench = Bench()
    task = asyncio.create_task(bench.watch.run())
    # Served when asked for, and gone before its cache lists it.
    await asyncio.sleep(0)
    bench.client.served -= {RESOURCE_FLAVORS}
    await asyncio.sleep(2 * PERIOD)
    assert await bench.watch.relist()
    kueue = bench.watch.known(KEY)
    assert kueue is not None
    assert kueue.obstacle is None
    task.cancel()


@in_virtual_time
async def test_nothing_is_known_before_a_comparison_of_all_kinds() -> None:
    bench = Bench()
    task = asyncio.create_task(bench.watch.run())
    await asyncio.sleep(0)
    bench.client.served -= {RESOURCE_FLAVORS}
    await asyncio.sleep(1)
    assert not await bench.watch.relist()
    assert bench.watch.known(KEY) is None
    bench.client.served |= {RESOURCE_FLAVORS}
    await asyncio.sleep(1)
    assert bench.watch.known(KEY) is None
    assert await bench.watch.relist()
    assert bench.watch.known(KEY) is not None
    task.cancel()
