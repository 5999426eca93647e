"""Objects that a job brings along, and how its pods name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.companions import with_job_name
from di_api.field_error import mapping
from di_operator.builders.metadata import object_metadata

_NAMING: Final = ("volumes", "resourceClaims")
"""What in a pod's spec names objects that may be companions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionRecipe:
    """A companion of a job, still to be built."""

    job: Mapping[str, Any]
    companion: Mapping[str, Any]
    """As the spec has it."""

    def build(self) -> dict[str, Any]:
        """The object's body: as the spec has it, with the job's name, and the job as its owner."""
        return companion_body(self.job, self.companion)


def companion_body(job: Mapping[str, Any], companion: Mapping[str, Any]) -> dict[str, Any]:
    """Return a companion with what every object of the job carries; of its metadata no more is
    taken than the name, labels and annotations."""
    named = with_job_name(companion, job["metadata"]["name"])
    given = mapping(named.get("metadata"))
    metadata = object_metadata(job, given["name"])
    metadata["labels"] = {**mapping(given.get("labels")), **metadata["labels"]}
    if annotations := given.get("annotations"):
        metadata["annotations"] = annotations
    return {**named, "metadata": metadata}


def naming_companions(pod: dict[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod with the job's name where it names companions; as it is if there are none."""
    if not mapping(job.get("spec")).get("companions"):
        return pod
    name, spec = job["metadata"]["name"], pod["spec"]
    named = {key: with_job_name(spec[key], name) for key in _NAMING if key in spec}
    return {**pod, "spec": {**spec, **named}}
