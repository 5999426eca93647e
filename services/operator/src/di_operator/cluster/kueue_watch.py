"""Watches Kueue's objects while the cluster has Kueue; its presence is checked at every resync.

A list that matches nothing shows whether Kueue is installed: 404 means that its resources are not
served, 403 that this operator has no permission. Any other error keeps the previous answer. Until
the first answer, and until the first lists are complete, no decision is made for jobs with a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import structlog

from di_api.field_error import mapping
from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Forbidden, NotFound
from di_kube.resources import (
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from di_kube.watch_limits import WatchLimits
from di_operator.cluster.informer_state import INDEX_JOB, InformerState, index_job, transform
from di_operator.config import Config
from di_operator.kueue.queueing import NOT_ALLOWED, NOT_SERVED, NOT_WATCHED, Kueue
from di_operator.process.clock import Clock
from di_operator.process.controller import JobKey

log = structlog.get_logger(__name__)

# No object has this name (names have 253 characters at most), so the list is empty.
_NOBODY: Final = f"metadata.name={'x' * 254}"
_FOLLOWED: Final = (WORKLOADS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES)
_RETRY: Final = 2.0
"""Seconds until the next check if the first one failed."""


class NoKueue:
    """Stand-in for an operator that does not support Kueue."""

    def known(self, key: JobKey) -> Kueue | None:
        """Return that Kueue is not supported."""
        return Kueue(obstacle=NOT_WATCHED)

    async def run(self) -> None:
        """Do nothing until cancelled."""
        await asyncio.Event().wait()

    async def relist(self) -> None:
        """Do nothing."""


class KueueWatch:
    """Watches our Workloads, ResourceFlavors and WorkloadPriorityClasses."""

    def __init__(
        self,
        *,
        client: KubeClient,
        informers: InformerState,
        make_cache: Callable[[Resource], WatchCache],
        namespace: str | None,
        period: float,
        clock: Clock,
    ) -> None:
        """`make_cache` returns a new cache of a resource; `period` is the time in seconds between
        two checks whether Kueue exists; `namespace` None: all.
        """
        self._client = client
        self._informers = informers
        self._make_cache = make_cache
        self._namespace = namespace
        self._period = period
        self._clock = clock
        self._caches: Mapping[Resource, WatchCache] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._obstacle: str | None = None
        self._is_known = False

    def known(self, key: JobKey) -> Kueue | None:
        """Return what is known of Kueue and the Workloads of a job; None before the first
        answer.
        """
        if not self._is_known:
            return None
        if self._obstacle is not None:
            return Kueue(obstacle=self._obstacle)
        return Kueue(
            obstacle=None,
            workloads=tuple(self._informers.of_job(WORKLOADS, key)),
            flavor=lambda name: self._caches[RESOURCE_FLAVORS].get(None, name),
            priority=self._priority,
        )

    async def run(self) -> None:
        """Check for Kueue and watch its objects until cancelled."""
        try:
            while True:
                await self._ask()
                await self._clock.sleep(self._period if self._is_known else _RETRY)
        finally:
            self._end()

    async def relist(self) -> None:
        """Compare the caches with the API server. Raises ApiError if a request fails."""
        try:
            await asyncio.gather(*(cache.relist() for cache in self._caches.values()))
        except (NotFound, Forbidden):
            await self._ask()  # it went since it was asked for last

    def _priority(self, name: str) -> int | None:
        found = mapping(self._caches[WORKLOAD_PRIORITY_CLASSES].get(None, name)).get("value")
        return found if isinstance(found, int) else None

    async def _ask(self) -> None:
        try:
            for resource in _FOLLOWED:
                scope = self._namespace if resource.namespaced else None
                await self._client.list(resource, scope, field_selector=_NOBODY)
        except NotFound:
            self._stop(NOT_SERVED)
        except Forbidden:
            self._stop(NOT_ALLOWED)
        except ApiError as error:
            log.warning("not known whether Kueue is there", error=str(error))
        else:
            await self._start()

    async def _start(self) -> None:
        if self._caches:
            return
        log.info("Kueue is there")
        caches = {resource: self._make_cache(resource) for resource in _FOLLOWED}
        self._tasks = [
            asyncio.create_task(cache.run(), name=f"watch {resource.plural}")
            for resource, cache in caches.items()
        ]
        self._caches = caches
        self._informers.adopt(WORKLOADS, caches[WORKLOADS])
        for resource, cache in caches.items():
            if resource != WORKLOADS:
                cache.subscribe(self._follow)
        await asyncio.gather(*(cache.synced.wait() for cache in caches.values()))
        self._obstacle, self._is_known = None, True
        self._informers.wake_all()

    def _follow(self, kind: str, body: Mapping[str, Any]) -> None:
        """Wake jobs that may wait for a changed flavor or priority class."""
        if self._is_known and self._obstacle is None:
            self._informers.wake_all()

    def _stop(self, obstacle: str) -> None:
        if self._is_known and self._obstacle == obstacle:
            return
        log.info("Kueue is not there", why=obstacle)
        self._end()
        self._obstacle, self._is_known = obstacle, True
        self._informers.wake_all()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._caches = {}
        self._informers.drop(WORKLOADS)


def follow_kueue(
    config: Config,
    *,
    client: KubeClient,
    informers: InformerState,
    limits: WatchLimits,
    clock: Clock,
    rng: Random,
) -> KueueWatch | NoKueue:
    """Return the watch of Kueue's objects that the configuration asks for."""
    if not config.kueue:
        return NoKueue()

    def make_cache(resource: Resource) -> WatchCache:
        is_ours = resource == WORKLOADS
        return WatchCache(
            client,
            resource,
            namespace=config.watch_namespace if is_ours else None,
            label_selector=f"{LABEL_OPERATOR}={OPERATOR_NAME}" if is_ours else None,
            transform=transform,
            indexes={INDEX_JOB: index_job} if is_ours else None,
            clock=clock.monotonic,
            rng=rng,
            limits=limits,
        )

    return KueueWatch(
        client=client,
        informers=informers,
        make_cache=make_cache,
        namespace=config.watch_namespace,
        period=config.sync_period,
        clock=clock,
    )
