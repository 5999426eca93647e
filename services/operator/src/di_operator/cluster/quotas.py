"""Watches ResourceQuotas while the operator has permission to read them.

A list that matches nothing checks the permission. The allocator works without it too: an assignment
that a quota refuses is withdrawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import structlog

from di_kube.cache import DELETED, WatchCache
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Forbidden
from di_kube.resources import QUOTAS
from di_operator.config import Config
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

Object = Mapping[str, Any]
Subscriber = Callable[[str, Any], None]

# No object has this name (names have 253 characters at most), so the list is empty.
_NO_OBJECT: Final = f"metadata.name={'x' * 254}"
ASK_AGAIN: Final = 60.0
"""Seconds between two checks of the permission."""
_KEPT: Final = ("hard", "used", "scopes", "scopeSelector")


class QuotaWatch:
    """Watches the ResourceQuotas of the watched namespaces."""

    def __init__(
        self,
        *,
        client: KubeClient,
        make_cache: Callable[[], WatchCache],
        namespace: str | None,
        clock: Clock,
    ) -> None:
        """`make_cache` returns a new cache of quotas; `namespace` None: all."""
        self._client = client
        self._make_cache = make_cache
        self._namespace = namespace
        self._clock = clock
        self._cache: WatchCache | None = None
        self._following: asyncio.Task[None] | None = None
        self._subscribers: list[Subscriber] = []
        self._is_reported = False

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback(type, object)` on every change, as a cache does."""
        self._subscribers.append(callback)

    def items(self) -> list[Object]:
        """Return all known quotas; none while they cannot be read."""
        return self._cache.items() if self._cache is not None else []

    async def run(self) -> None:
        """Check the permission and watch until cancelled."""
        try:
            while True:
                await self._ask()
                await self._clock.sleep(ASK_AGAIN)
        finally:
            self._stop()

    async def _ask(self) -> None:
        try:
            await self._client.list(QUOTAS, self._namespace, field_selector=_NO_OBJECT)
        except Forbidden as error:
            if not self._is_reported:
                log.info("ResourceQuotas cannot be read", detail=error.message)
            self._is_reported = True
            self._stop()
        except ApiError as error:
            log.warning("not known whether ResourceQuotas can be read", error=str(error))
        else:
            self._start()

    def _start(self) -> None:
        if self._cache is not None:
            return
        self._is_reported = False
        self._cache = cache = self._make_cache()
        cache.subscribe(self._tell)
        self._following = asyncio.create_task(cache.run(), name="watch resourcequotas")

    def _stop(self) -> None:
        """Drop all quotas: one that is no longer watched must not limit jobs."""
        if self._following is not None:
            self._following.cancel()
        gone, self._cache, self._following = self.items(), None, None
        for quota in gone:
            self._tell(DELETED, quota)

    def _tell(self, kind: str, quota: Object) -> None:
        for subscriber in self._subscribers:
            subscriber(kind, quota)


def follow_quotas(config: Config, *, client: KubeClient, clock: Clock, rng: Random) -> QuotaWatch:
    """Return the watch of quotas in the namespaces of the operator's jobs."""

    def make_cache() -> WatchCache:
        return WatchCache(
            client,
            QUOTAS,
            namespace=config.watch_namespace,
            transform=transform_quota,
            clock=clock.monotonic,
            rng=rng,
        )

    return QuotaWatch(
        client=client, make_cache=make_cache, namespace=config.watch_namespace, clock=clock
    )


def transform_quota(body: dict[str, Any]) -> dict[str, Any]:
    """Keep the fields of a quota that the allocator reads."""
    metadata = body["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion")
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        **{
            part: {key: fields[key] for key in _KEPT if key in fields}
            for part in ("spec", "status")
            if (fields := body.get(part))
        },
    }
