"""The ConfigMap that holds the node lists of a job with many replicas."""

from __future__ import annotations

import hashlib
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
    data = nodes.files()
    metadata["annotations"] = {names.ANNOTATION_DIGEST: _digest(data)}
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": data,
    }


def is_as_written(configmap: Mapping[str, Any]) -> bool:
    """Whether nobody but the operator has written the lists, as far as the ConfigMap tells.

    They may be behind what they would be today all the same: they are brought up to date for new
    pods only. Earlier versions left no digest.
    """
    annotations: Mapping[str, str] = configmap["metadata"].get("annotations") or {}
    digest = annotations.get(names.ANNOTATION_DIGEST)
    return digest is None or digest == _digest(configmap.get("data") or {})


def _digest(data: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for key in sorted(data):
        # Lists have no line breaks, and keys cannot: no two ConfigMaps of ours read the same.
        digest.update(f"{key}\n{data[key]}\n".encode())
    return digest.hexdigest()
