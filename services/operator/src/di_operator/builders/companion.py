"""Companions: objects that a job's spec contains, and the pods' references to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.companions import with_job_name
from di_api.field_error import mapping
from di_operator.builders.metadata import object_metadata

_NAMING: Final = ("volumes", "resourceClaims")
"""Fields of a pod's spec that can refer to companions by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionRecipe:
    """A companion of a job that is not built yet."""

    job: Mapping[str, Any]
    companion: Mapping[str, Any]
    """The companion as declared in the spec."""

    def build(self) -> dict[str, Any]:
        """Return the body: the declared object with the job's name in it, owned by the job."""
        return companion_body(self.job, self.companion)


def companion_body(job: Mapping[str, Any], companion: Mapping[str, Any]) -> dict[str, Any]:
    """Return a companion with the labels and owner of every object of the job. Of its own metadata
    only the name, labels and annotations are kept.
    """
    named = with_job_name(companion, job["metadata"]["name"])
    given = mapping(named.get("metadata"))
    metadata = object_metadata(job, given["name"])
    metadata["labels"] = {**mapping(given.get("labels")), **metadata["labels"]}
    if annotations := given.get("annotations"):
        metadata["annotations"] = annotations
    return {**named, "metadata": metadata}


def naming_companions(pod: dict[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod with the job's name inserted into its references to companions."""
    if not mapping(job.get("spec")).get("companions"):
        return pod
    name, spec = job["metadata"]["name"], pod["spec"]
    named = {key: with_job_name(spec[key], name) for key in _NAMING if key in spec}
    return {**pod, "spec": {**spec, **named}}
