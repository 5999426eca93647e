"""Inputs for learners on several GPUs: the aggregator's template, and the cluster's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.names import GPU_RESOURCE
from di_kube.errors import Forbidden, NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, NODES
from di_server.deadline import Deadline
from di_server.model.references import ConfigRef
from di_server.problems import NoAggregatorConfig
from di_server.storage.caches import Caches
from di_server.storage.kube import Kube, Object

Template = Mapping[str, Any]


class LearnerStore:
    """Reads from the caches, and from the API server what they lack."""

    def __init__(
        self, *, kube: Kube, caches: Caches, config: ConfigRef | None, nodes: bool
    ) -> None:
        """`nodes`: whether the server can read nodes."""
        self._kube = kube
        self._caches = caches
        self._config = config
        self._nodes = nodes

    def aggregator(self, deadline: Deadline) -> Template | None:
        """Return the template of aggregators, None if there is none."""
        ref = self._config
        if ref is None:
            return None
        return _template(self._find(ref, deadline))

    def require_aggregator(self, deadline: Deadline) -> None:
        """Check that there is a template of aggregators.

        Raises:
            NoAggregatorConfig: with the missing object.
        """
        ref = self._config
        if ref is None:
            raise NoAggregatorConfig(
                "a learner with more than one GPU needs an aggregator, and di-server is "
                "installed without an AggregatorConfig"
            )
        if self._find(ref, deadline) is None:
            raise NoAggregatorConfig(
                "a learner with more than one GPU needs an aggregator: "
                f"there is no AggregatorConfig {ref.namespace}/{ref.name}"
            )

    def _find(self, ref: ConfigRef, deadline: Deadline) -> Object | None:
        found = self._caches.configs.get(ref.namespace, ref.name)
        # A new one may not be cached yet.
        return found if found is not None else self._read(ref, deadline)

    def node_gpus(self, deadline: Deadline) -> list[int]:
        """Return the allocatable GPUs of each node; empty without permission to read nodes."""
        if not self._nodes:
            return []
        if self._caches.nodes.synced:
            nodes = self._caches.nodes.values()
        else:
            try:
                nodes, _ = self._kube.list(NODES, timeout=deadline.for_call())
            except Forbidden:
                return []
        return [_gpus(node) for node in nodes]

    def _read(self, ref: ConfigRef, deadline: Deadline) -> Object | None:
        try:
            return self._kube.get(
                AGGREGATOR_CONFIGS, ref.name, ref.namespace, timeout=deadline.for_call()
            )
        except NotFound:
            return None


def _template(config: Object | None) -> Template | None:
    aggregator = ((config or {}).get("spec") or {}).get("aggregator") or {}
    template: Template | None = aggregator.get("template")
    return template


def _gpus(node: Object) -> int:
    amount = str(((node.get("status") or {}).get("allocatable") or {}).get(GPU_RESOURCE, 0))
    return int(amount) if amount.isdecimal() else 0
