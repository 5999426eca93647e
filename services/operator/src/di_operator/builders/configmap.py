"""The ConfigMap that holds the node lists of a job with many replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api import names
from di_operator.builders.metadata import object_metadata
from di_operator.builders.nodes import NodeLists


def configmap_body(
    job: Mapping[str, Any], nodes: NodeLists, *, resource_version: str | None = None
) -> dict[str, Any]:
    """Return the ConfigMap; with ``resource_version`` as a replacement of what was read."""
    metadata = object_metadata(job, names.nodes_config_map_name(job["metadata"]["name"]))
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": nodes.files(),
    }
