"""The server's view of the cluster, kept by watches in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import structlog

from di_api.kube.cache import Trim, WatchCache
from di_api.kube.client import KubeClient
from di_api.kube.config import KubeConfig
from di_api.kube.resources import AGGREGATOR_CONFIGS, DIJOBS, NODES, PODS, Resource
from di_api.names import LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_server.decisions.coordinated.job import CoordinatedJob
from di_server.storage.kube import Object
from di_server.storage.mirror import Mirror, as_it_is
from di_server.storage.trimming import trim_config, trim_job, trim_node, trim_pod

_log = structlog.get_logger()

_PAUSE_SECONDS: Final = 1.0
BY_JOB: Final = "job"
"""Index of pods by (namespace, job's name)."""
BY_IP: Final = "ip"
"""Index of pods by their address."""


def _job_of(pod: Object) -> Iterable[Hashable]:
    metadata = pod["metadata"]
    job = (metadata.get("labels") or {}).get(LABEL_JOB)
    return [(metadata["namespace"], job)] if job else []


def _ip_of(pod: Object) -> Iterable[Hashable]:
    ip = (pod.get("status") or {}).get("podIP")
    return [ip] if ip else []


@dataclass(frozen=True, slots=True)
class Sight:
    """What is kept in memory; empty and incomplete until somebody watches."""

    jobs: Mirror[CoordinatedJob] = field(
        default_factory=lambda: Mirror(trim=trim_job, view=CoordinatedJob)
    )
    pods: Mirror[Object] = field(
        default_factory=lambda: Mirror(
            trim=trim_pod, view=as_it_is, indexes={BY_JOB: _job_of, BY_IP: _ip_of}
        )
    )
    configs: Mirror[Object] = field(default_factory=lambda: Mirror(trim=trim_config, view=as_it_is))
    nodes: Mirror[Object] = field(default_factory=lambda: Mirror(trim=trim_node, view=as_it_is))

    @property
    def mirrors(self) -> Mapping[str, Mirror[Any]]:
        """All of them, by the plural name of their resource."""
        return {
            DIJOBS.plural: self.jobs,
            PODS.plural: self.pods,
            AGGREGATOR_CONFIGS.plural: self.configs,
            NODES.plural: self.nodes,
        }

    def lost(self) -> None:
        """Nobody watches any more."""
        for mirror in self.mirrors.values():
            mirror.lost()


class Watcher:
    """Fills a Sight for as long as the process lives.

    Requests do not wait for it: what is not in sight yet they read from the API server.

    Args:
        config: access to the API server; the connections are the thread's own.
        namespace: the only one served, None means all.
        config_namespace: of the AggregatorConfig; None: there is none to watch.
        nodes: whether nodes may be watched.
    """

    def __init__(
        self,
        *,
        sight: Sight,
        config: KubeConfig,
        namespace: str | None,
        config_namespace: str | None,
        nodes: bool,
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._sight = sight
        self._config = config
        self._namespace = namespace
        self._config_namespace = config_namespace
        self._nodes = nodes
        self._clock = clock
        self._rng = rng
        self._pause = threading.Event()

    def start(self) -> None:
        """Begin to watch, until the process ends."""
        # A daemon: there is nothing to finish then.
        threading.Thread(target=self._run, name="watcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.watch()
            self._pause.wait(_PAUSE_SECONDS)

    def watch(self) -> None:
        """Watch until a mistake of ours ends it; no error of the API server does."""
        try:
            asyncio.run(self._watch())
        except Exception:
            _log.exception("watching failed")
        finally:
            self._sight.lost()

    async def _watch(self) -> None:
        sight, ours = self._sight, f"{LABEL_OPERATOR}={OPERATOR_NAME}"
        async with KubeClient(config=self._config) as client, asyncio.TaskGroup() as group:

            def keep(
                mirror: Mirror[Any],
                resource: Resource,
                trim: Trim,
                namespace: str | None = self._namespace,
                labels: str | None = None,
            ) -> None:
                cache = WatchCache(
                    client,
                    resource,
                    namespace=namespace,
                    label_selector=labels,
                    trim=trim,
                    clock=self._clock,
                    rng=self._rng,
                )
                cache.subscribe(mirror.follow)
                group.create_task(cache.run())
                group.create_task(_announce(cache, mirror, resource))

            keep(sight.jobs, DIJOBS, trim_job)
            keep(sight.pods, PODS, trim_pod, labels=ours)
            if self._config_namespace is not None:
                keep(sight.configs, AGGREGATOR_CONFIGS, trim_config, self._config_namespace)
            if self._nodes:
                keep(sight.nodes, NODES, trim_node, None)


async def _announce(cache: WatchCache, mirror: Mirror[Any], resource: Resource) -> None:
    await cache.synced.wait()
    mirror.filled()
    _log.info("in sight", resource=resource.plural, objects=len(cache))
