"""The watches that fill the caches, in a separate thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from random import Random
from typing import Any, Final

import structlog

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_kube.cache import Subscriber, Transform, WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, NODES, PODS, Resource
from di_server.storage.caches import Caches
from di_server.storage.object_cache import ObjectCache
from di_server.storage.transforms import (
    transform_config,
    transform_job,
    transform_node,
    transform_pod,
)

_log = structlog.get_logger()

_PAUSE_SECONDS: Final = 1.0


class Informers:
    """Fill the caches for as long as the process runs.

    Requests do not wait for it: objects that are not cached yet are read from the API server.

    Args:
        config: access to the API server; the thread has its own connections.
        namespace: the only one served, None means all.
        config_namespace: of the AggregatorConfig; None: there is none to watch.
        nodes: whether the server can watch nodes.
        on_pod: called for every event of a pod, after the cache.
    """

    def __init__(
        self,
        *,
        caches: Caches,
        config: KubeConfig,
        namespace: str | None,
        config_namespace: str | None,
        nodes: bool,
        on_pod: Subscriber,
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._caches = caches
        self._config = config
        self._namespace = namespace
        self._config_namespace = config_namespace
        self._nodes = nodes
        self._on_pod = on_pod
        self._clock = clock
        self._rng = rng
        self._pause = threading.Event()

    def start(self) -> None:
        """Start the watches, which run until the process ends."""
        # A daemon thread, because it has nothing to finish.
        threading.Thread(target=self._run, name="watcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.watch()
            self._pause.wait(_PAUSE_SECONDS)

    def watch(self) -> None:
        """Watch until a defect ends it; errors of the API server do not."""
        try:
            asyncio.run(self._watch())
        except Exception:
            _log.exception("watching failed")
        finally:
            self._caches.clear()

    async def _watch(self) -> None:
        caches, ours = self._caches, f"{LABEL_OPERATOR}={OPERATOR_NAME}"
        async with KubeClient(config=self._config) as client, asyncio.TaskGroup() as group:

            def keep(
                kept: ObjectCache[Any],
                resource: Resource,
                transform: Transform,
                namespace: str | None = self._namespace,
                *,
                labels: str | None = None,
                then: Subscriber | None = None,
            ) -> None:
                watch = WatchCache(
                    client,
                    resource,
                    namespace=namespace,
                    label_selector=labels,
                    transform=transform,
                    clock=self._clock,
                    rng=self._rng,
                )
                watch.subscribe(kept.on_event)
                if then is not None:
                    watch.subscribe(then)
                group.create_task(watch.run())
                group.create_task(_announce(watch, kept, resource))

            keep(caches.jobs, DIJOBS, transform_job)
            keep(caches.pods, PODS, transform_pod, labels=ours, then=self._on_pod)
            if self._config_namespace is not None:
                keep(caches.configs, AGGREGATOR_CONFIGS, transform_config, self._config_namespace)
            if self._nodes:
                keep(caches.nodes, NODES, transform_node, None)


async def _announce(watch: WatchCache, kept: ObjectCache[Any], resource: Resource) -> None:
    await watch.synced.wait()
    kept.mark_synced()
    _log.info("in sight", resource=resource.plural, objects=len(watch))
