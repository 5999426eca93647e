"""The watch of one user, in a separate thread, shared by all open pages."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from random import Random
from typing import Final

from di_dashboard.cluster_cache.cache import ClusterCache
from di_dashboard.cluster_cache.trim import slim_event, slim_job, slim_node, slim_pod
from di_kube.cache import Subscriber, Transform, WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from di_kube.resources import DIJOBS, EVENTS, NODES, PODS, Resource

_LOOK_SECONDS: Final = 1.0
_REFUSED_LOOK_SECONDS: Final = 30.0
_AWAY_AFTER: Final = 10.0
"""Seconds without a response of the API server after which pages show it as unreachable."""
_PAUSE_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class Watcher:
    """Fills the cluster cache until `stop`, or until the process ends.

    Args:
        config: access to the API server; the thread has its own connections.
        namespace: the only one that is watched; None means all.
        on_date: called with the Date of the API server's responses.
    """

    def __init__(
        self,
        *,
        config: KubeConfig,
        namespace: str | None,
        cluster_cache: ClusterCache,
        on_date: Callable[[str], None],
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._config = config
        self._namespace = namespace
        self._world = cluster_cache
        self._on_date = on_date
        self._clock = clock
        self._rng = rng
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._world.expect(each.plural for each in (DIJOBS, PODS, EVENTS, NODES))
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for its end."""
        self._stopped.set()
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                asyncio.run(self._watch())
            except asyncio.CancelledError:
                return
            except Exception:
                log.exception("watching failed")
            self._stopped.wait(_PAUSE_SECONDS)

    async def _watch(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._stopped.is_set():
            return
        cluster_cache, everywhere = self._world, self._namespace
        async with (
            KubeClient(config=self._config, on_date=self._on_date) as client,
            asyncio.TaskGroup() as group,
        ):
            kinds: tuple[tuple[Resource, str | None, Transform, Subscriber], ...] = (
                (DIJOBS, everywhere, slim_job, cluster_cache.on_job),
                (PODS, everywhere, slim_pod, cluster_cache.on_pod),
                (EVENTS, everywhere, slim_event, cluster_cache.on_event),
                (NODES, None, slim_node, cluster_cache.on_node),
            )
            for resource, namespace, transform, subscriber in kinds:
                cache = WatchCache(
                    client,
                    resource,
                    namespace=namespace,
                    transform=transform,
                    clock=self._clock,
                    rng=self._rng,
                )
                cache.subscribe(subscriber)
                group.create_task(self._keep(client, cache, resource, namespace))

    async def _keep(
        self, client: KubeClient, cache: WatchCache, resource: Resource, namespace: str | None
    ) -> None:
        """Watch a kind if the user has permission; otherwise check again from time to time."""
        while refused := await _refusal(client, resource, namespace):
            self._world.mark(resource.plural, ready=False, refused=refused, away=False)
            await asyncio.sleep(_REFUSED_LOOK_SECONDS)
        async with asyncio.TaskGroup() as group:
            group.create_task(cache.run())
            while True:
                self._world.mark(
                    resource.plural,
                    ready=cache.synced.is_set(),
                    refused="",
                    away=cache.away > _AWAY_AFTER,
                )
                await asyncio.sleep(_LOOK_SECONDS if cache.synced.is_set() else 0.05)


async def _refusal(client: KubeClient, resource: Resource, namespace: str | None) -> str:
    try:
        # A list of one object checks the permission.
        await client.raw(f"{resource.path(namespace)}?limit=1")
    except (Forbidden, Unauthorized, NotFound) as error:
        # The API of a local run has no nodes.
        return error.message or error.reason
    except ApiError:
        return ""
    return ""
