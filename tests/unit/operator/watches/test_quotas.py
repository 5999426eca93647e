"""ResourceQuotas are followed where the operator is allowed to read them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from structlog.testing import capture_logs

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Forbidden, Unavailable
from di_operator.cluster.quotas import ASK_AGAIN, QuotaWatch, transform_quota
from tests.unit.operator import virtual_time
from tests.unit.operator.virtual_time import VirtualClock

QUOTA = {"metadata": {"name": "q", "namespace": "rl", "uid": "u"}}


class Client:
    """Answers every list in the same way."""

    def __init__(self) -> None:
        self.error: ApiError | None = None

    async def list(self, *_: Any, **__: Any) -> tuple[list[Any], str]:
        if self.error is not None:
            raise self.error
        return [], "1"


class Cache:
    """A cache with one quota."""

    def __init__(self) -> None:
        self.is_running = False

    def subscribe(self, callback: Any) -> None:
        self._tell = callback

    def items(self) -> list[Any]:
        return [QUOTA]

    async def run(self) -> None:
        self._tell("ADDED", QUOTA)
        self.is_running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False


class Bench:
    def __init__(self) -> None:
        self.client, self.caches = Client(), list[Cache]()
        self.told: list[str] = []
        self.watch = QuotaWatch(
            client=cast("KubeClient", self.client),
            make_cache=self._make,
            namespace=None,
            clock=VirtualClock(),
        )
        self.watch.subscribe(lambda kind, quota: self.told.append(kind))

    def _make(self) -> WatchCache:
        self.caches.append(Cache())
        return cast("WatchCache", self.caches[-1])


@virtual_time.in_virtual_time
async def test_quotas_are_followed_from_when_the_operator_may_read_them() -> None:
    bench = Bench()
    bench.client.error = Forbidden(kind="ResourceQuota", code=403, message="no")
    running = asyncio.create_task(bench.watch.run())
    with capture_logs() as lines:
        await asyncio.sleep(3 * ASK_AGAIN)
    assert [line["event"] for line in lines] == ["ResourceQuotas cannot be read"]
    assert (bench.watch.items(), bench.told) == ([], [])
    bench.client.error = None
    await asyncio.sleep(ASK_AGAIN)
    assert (bench.watch.items(), bench.told) == ([QUOTA], ["ADDED"])
    running.cancel()


@virtual_time.in_virtual_time
async def test_quotas_that_may_not_be_read_any_more_bound_nothing() -> None:
    bench = Bench()
    running = asyncio.create_task(bench.watch.run())
    await asyncio.sleep(1)
    bench.client.error = Unavailable(kind="ResourceQuota")
    await asyncio.sleep(ASK_AGAIN)
    assert bench.watch.items() == [QUOTA]
    bench.client.error = Forbidden(kind="ResourceQuota", code=403, message="no")
    await asyncio.sleep(ASK_AGAIN)
    assert (bench.watch.items(), bench.told) == ([], ["ADDED", "DELETED"])
    assert [cache.is_running for cache in bench.caches] == [False]
    running.cancel()


def test_of_a_quota_is_kept_what_the_allocator_reads() -> None:
    spec, status = {"hard": {"pods": "1"}, "scopes": ["x"]}, {"hard": {}, "used": {"pods": "1"}}
    metadata = {"name": "q", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    whole = {"metadata": {**metadata, "labels": {"a": "b"}}, "spec": spec, "status": status}
    assert transform_quota(whole) == {"metadata": metadata, "spec": spec, "status": status}
