"""The server's caches of the cluster, one for each resource."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.names import LABEL_JOB
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, NODES, PODS
from di_server.model.job import Job
from di_server.model.pod import addresses_of
from di_server.storage.kube import Object
from di_server.storage.object_cache import ObjectCache, as_it_is
from di_server.storage.transforms import (
    transform_config,
    transform_job,
    transform_node,
    transform_pod,
)

BY_JOB: Final = "job"
"""Index of pods by (namespace, job's name)."""
BY_IP: Final = "ip"
"""Index of pods by each of their addresses."""


def _job_of(pod: Object) -> Iterable[Hashable]:
    metadata = pod["metadata"]
    job = (metadata.get("labels") or {}).get(LABEL_JOB)
    return [(metadata["namespace"], job)] if job else []


def _ip_of(pod: Object) -> Iterable[Hashable]:
    return addresses_of(pod)


@dataclass(frozen=True, slots=True)
class Caches:
    """All caches; empty and not synced until the watches run."""

    jobs: ObjectCache[Job] = field(
        default_factory=lambda: ObjectCache(transform=transform_job, view=Job)
    )
    pods: ObjectCache[Object] = field(
        default_factory=lambda: ObjectCache(
            transform=transform_pod, view=as_it_is, indexes={BY_JOB: _job_of, BY_IP: _ip_of}
        )
    )
    configs: ObjectCache[Object] = field(
        default_factory=lambda: ObjectCache(transform=transform_config, view=as_it_is)
    )
    nodes: ObjectCache[Object] = field(
        default_factory=lambda: ObjectCache(transform=transform_node, view=as_it_is)
    )

    @property
    def by_resource(self) -> Mapping[str, ObjectCache[Any]]:
        """Return all caches by the plural name of their resource."""
        return {
            DIJOBS.plural: self.jobs,
            PODS.plural: self.pods,
            AGGREGATOR_CONFIGS.plural: self.configs,
            NODES.plural: self.nodes,
        }

    def clear(self) -> None:
        """Empty all caches, because the watches have stopped."""
        for cache in self.by_resource.values():
            cache.clear()
