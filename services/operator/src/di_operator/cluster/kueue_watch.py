"""Watches Kueue's objects while the cluster has Kueue; its presence is checked at every resync.

A list that matches nothing shows whether a resource is served: 404 means that it is not, 403 that
this operator has no permission. Any other error keeps the previous answer. Until the first answer,
and until the first lists are complete, no decision is made for jobs with a queue.

Kueue is installed while Workloads are served. When it is uninstalled, the resources go one after
the other, and Workloads stay until the operator has removed its finalizer from each of them. So
Workloads are followed until they are no longer served, even if the others are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from itertools import chain
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
    """Used in place of a KueueWatch if the operator does not support Kueue."""

    def known(self, key: JobKey) -> Kueue | None:
        """Return that Kueue is not supported."""
        return Kueue(obstacle=NOT_WATCHED)

    async def run(self) -> None:
        """Do nothing until cancelled."""
        await asyncio.Event().wait()

    async def relist(self) -> bool:
        """Return that nothing is left to compare."""
        return True


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
        self._caches: dict[Resource, WatchCache] = {}
        self._tasks: dict[Resource, tuple[asyncio.Task[None], ...]] = {}
        self._obstacle: str | None = None
        self._is_known = False
        self._is_compared = False

    def known(self, key: JobKey) -> Kueue | None:
        """Return what is known of Kueue and the Workloads of a job; None before the first
        answer and the first comparison under the lease.
        """
        is_read = self._is_known and self._is_compared
        if not is_read or not all(each.synced.is_set() for each in self._caches.values()):
            return None
        if self._obstacle is not None:
            return Kueue(obstacle=self._obstacle)
        return Kueue(
            obstacle=None,
            workloads=tuple(self._informers.of_job(WORKLOADS, key)),
            flavor=lambda name: self._found(RESOURCE_FLAVORS, name),
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

    async def relist(self) -> bool:
        """Compare the caches with the API server; return whether all were compared. Raises
        ApiError if a request fails.
        """
        try:
            compared = await asyncio.gather(*(cache.relist() for cache in self._caches.values()))
        except (NotFound, Forbidden):
            await self._ask()  # it was removed after the last check
            compared = []
        self._is_compared |= all(compared)
        return all(compared)

    def _priority(self, name: str) -> int | None:
        found = mapping(self._found(WORKLOAD_PRIORITY_CLASSES, name)).get("value")
        return found if isinstance(found, int) else None

    def _found(self, resource: Resource, name: str) -> Mapping[str, Any] | None:
        cache = self._caches.get(resource)
        return None if cache is None else cache.get(None, name)

    async def _ask(self) -> None:
        try:
            served = [each for each in _FOLLOWED if await self._is_served(each)]
        except Forbidden:
            self._stop(NOT_ALLOWED)
        except ApiError as error:
            log.warning("it is not known whether Kueue is available", error=str(error))
        else:
            if WORKLOADS in served:
                self._start(served)
            else:
                self._stop(NOT_SERVED)

    async def _is_served(self, resource: Resource) -> bool:
        scope = self._namespace if resource.namespaced else None
        try:
            await self._client.list(resource, scope, field_selector=_NOBODY)
        except NotFound:
            return False
        return True

    def _start(self, served: Collection[Resource]) -> None:
        """Watch the served resources and no others."""
        gone = self._caches.keys() - set(served)
        new = {each: self._make_cache(each) for each in served if each not in self._caches}
        if not gone and not new:
            return
        if WORKLOADS in new:
            missing = [each.plural for each in _FOLLOWED if each not in served]
            log.info("Kueue is available", missing=missing)
        else:
            log.info(
                "resources of Kueue have changed",
                gone=[each.plural for each in gone],
                new=[each.plural for each in new],
            )
        for resource in gone:
            for task in self._tasks.pop(resource):
                task.cancel()
            del self._caches[resource]
        for resource, cache in new.items():
            self._caches[resource] = cache
            self._tasks[resource] = (
                asyncio.create_task(cache.run(), name=f"watch {resource.plural}"),
                asyncio.create_task(self._wake_when_synced(cache)),
            )
            if resource == WORKLOADS:
                self._informers.adopt(WORKLOADS, cache)
            else:
                cache.subscribe(self._follow)
        self._obstacle, self._is_known = None, True
        self._informers.wake_all()

    async def _wake_when_synced(self, cache: WatchCache) -> None:
        await cache.synced.wait()
        self._informers.wake_all()

    def _follow(self, kind: str, body: Mapping[str, Any]) -> None:
        """Wake jobs that may wait for a changed flavor or priority class."""
        if self._is_known and self._obstacle is None:
            self._informers.wake_all()

    def _stop(self, obstacle: str) -> None:
        if self._is_known and self._obstacle == obstacle:
            return
        log.info("Kueue is not available", why=obstacle)
        self._end()
        self._obstacle, self._is_known = obstacle, True
        self._informers.wake_all()

    def _end(self) -> None:
        for task in chain.from_iterable(self._tasks.values()):
            task.cancel()
        self._tasks = {}
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
