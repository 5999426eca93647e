"""The ConfigMap of a job: node lists where there are many replicas, and process groups."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from di_api import names
from di_operator.builders.metadata import object_metadata

_DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapRecipe:
    """The ConfigMap of some files, still to be built."""

    job: Mapping[str, Any]
    files: Mapping[str, str]
    """Node lists."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """What process groups are told."""
    resource_version: str | None = None
    """Of the one that it replaces."""

    def build(self) -> dict[str, Any]:
        """The ConfigMap's body."""
        return configmap_body(
            self.job, self.files, self.groups, resource_version=self.resource_version
        )


def configmap_body(
    job: Mapping[str, Any],
    lists: Mapping[str, str],
    groups: Mapping[str, str] = {},
    *,
    resource_version: str | None = None,
) -> dict[str, Any]:
    """Return the ConfigMap of some files; with ``resource_version`` as a replacement of what was
    read."""
    files = {**lists, **groups}
    metadata = object_metadata(job, names.nodes_config_map_name(job["metadata"]["name"]))
    metadata["annotations"] = {names.ANNOTATION_DIGEST: _digest(files)}
    if groups:
        metadata["annotations"][names.ANNOTATION_GROUPS] = _digest(groups)
    if resource_version is not None:
        metadata["resourceVersion"] = resource_version
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": files,
    }


def transform_configmap(body: dict[str, Any]) -> dict[str, Any]:
    """Keep of the files, half a megabyte for the largest job, their digest: it is taken once and
    not at each look."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {"metadata": metadata, _DIGEST: _digest(body.get("data") or {})}


def has_files(configmap: Mapping[str, Any], files: Mapping[str, str]) -> bool:
    """Whether a ConfigMap, transformed, holds these files."""
    return bool(configmap.get(_DIGEST) == _digest(files))


def has_groups(configmap: Mapping[str, Any], groups: Mapping[str, str]) -> bool:
    """Whether a ConfigMap says this of process groups, whatever its lists say; as transformed."""
    annotations: Mapping[str, str] = configmap["metadata"].get("annotations") or {}
    return not groups or annotations.get(names.ANNOTATION_GROUPS) == _digest(groups)


def is_as_written(configmap: Mapping[str, Any]) -> bool:
    """Whether nobody but the operator has written the lists, as far as the ConfigMap tells; as
    transformed.

    They may be behind what they would be today all the same: they are brought up to date for new
    pods only. Earlier versions left no digest.
    """
    annotations: Mapping[str, str] = configmap["metadata"].get("annotations") or {}
    digest = annotations.get(names.ANNOTATION_DIGEST)
    return digest is None or digest == configmap.get(_DIGEST)


def _digest(data: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for key in sorted(data):
        # Files have no line breaks but at their end, and keys cannot: no two ConfigMaps of ours
        # read the same.
        digest.update(f"{key}\n{data[key]}\n".encode())
    return digest.hexdigest()
