"""The ConfigMap of a job: node lists of large jobs, and the data of process groups."""

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
    """The ConfigMap of a job that is not built yet."""

    job: Mapping[str, Any]
    files: Mapping[str, str]
    """Node lists by file name."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Data of process groups by key."""
    resource_version: str | None = None
    """resourceVersion of the ConfigMap that it replaces."""

    def build(self) -> dict[str, Any]:
        """Return the ConfigMap's body."""
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
    """Return the body of a ConfigMap; with ``resource_version`` as a conditional replacement."""
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
    """Replace the files (half a megabyte for the largest job) by their digest, so that the digest
    is computed once and not in each reconcile.
    """
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {"metadata": metadata, _DIGEST: _digest(body.get("data") or {})}


def has_files(configmap: Mapping[str, Any], files: Mapping[str, str]) -> bool:
    """Return whether a transformed ConfigMap has exactly these files."""
    return bool(configmap.get(_DIGEST) == _digest(files))


def has_groups(configmap: Mapping[str, Any], groups: Mapping[str, str]) -> bool:
    """Return whether a transformed ConfigMap has this data of process groups; its node lists do not
    matter.
    """
    annotations: Mapping[str, str] = configmap["metadata"].get("annotations") or {}
    return not groups or annotations.get(names.ANNOTATION_GROUPS) == _digest(groups)


def is_as_written(configmap: Mapping[str, Any]) -> bool:
    """Return whether the node lists of a transformed ConfigMap are those that the operator wrote.

    The lists can still be outdated: they are updated only for new pods. Earlier versions stored no
    digest.
    """
    annotations: Mapping[str, str] = configmap["metadata"].get("annotations") or {}
    digest = annotations.get(names.ANNOTATION_DIGEST)
    return digest is None or digest == configmap.get(_DIGEST)


def _digest(data: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for key in sorted(data):
        # Files contain line breaks only at their end, and keys none: two different ConfigMaps never
        # give the same input.
        digest.update(f"{key}\n{data[key]}\n".encode())
    return digest.hexdigest()
