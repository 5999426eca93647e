"""A job's ProvisioningRequest, which requests nodes before there are pods.

The kinds, the conditions and the annotations of pods are those of
https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/apis/provisioningrequest
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api import names
from di_api.field_error import items, mapping
from di_kube.resources import Resource
from di_operator.builders.metadata import object_metadata

Object = Mapping[str, Any]

REQUESTS: Final = Resource(
    group="autoscaling.x-k8s.io",
    version="v1",
    plural="provisioningrequests",
    kind="ProvisioningRequest",
)
TEMPLATES: Final = Resource(group="", version="v1", plural="podtemplates", kind="PodTemplate")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplateRecipe:
    """The PodTemplate of a task for the autoscaler that creates nodes."""

    job: Object
    task: str
    template: Object

    @property
    def name(self) -> str:
        """Return the object's name."""
        return template_name(self.job, self.task)

    def build(self) -> dict[str, Any]:
        """Return the template's body."""
        return {
            "apiVersion": TEMPLATES.api_version,
            "kind": TEMPLATES.kind,
            "metadata": object_metadata(self.job, self.name),
            "template": dict(self.template),
        }

    def changes(self, _found: Object) -> None:
        """Return None: an existing template is never changed, because its request is not
        repeated.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningRequestRecipe:
    """The ProvisioningRequest of a job that is not built yet."""

    job: Object
    class_name: str
    counts: Mapping[str, int]
    """Number of pods that the job needs, by task."""

    @property
    def name(self) -> str:
        """Return the object's name."""
        return str(self.job["metadata"]["name"])

    def build(self) -> dict[str, Any]:
        """Return the request's body."""
        return {
            "apiVersion": REQUESTS.api_version,
            "kind": REQUESTS.kind,
            "metadata": object_metadata(self.job, self.name),
            "spec": {
                "provisioningClassName": self.class_name,
                "podSets": [
                    {"podTemplateRef": {"name": template_name(self.job, task)}, "count": count}
                    for task, count in self.counts.items()
                ],
            },
        }

    def changes(self, _found: Object) -> None:
        """Return None: the spec of an existing request is immutable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """The ProvisioningRequest that reserved nodes for a job's pods."""

    request: str
    class_name: str


def template_name(job: Object, task: str) -> str:
    """Return the name of a task's PodTemplate."""
    return f"{job['metadata']['name']}-{task}"


def using(pod: dict[str, Any], room: Provisioned) -> dict[str, Any]:
    """Return a pod's body that uses the capacity of this request only."""
    metadata = pod["metadata"]
    notes = {
        names.ANNOTATION_CONSUMES: room.request,
        names.ANNOTATION_PROVISIONING_CLASS: room.class_name,
    }
    annotations = {**metadata.get("annotations", {}), **notes}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def waits_for_nodes(found: Object | None) -> str | None:
    """Return why a job's request has no nodes yet; None: it has nodes. A reservation that expired
    (`BookingExpired`, `CapacityRevoked`) counts as nodes, because they were created.
    """
    if found is None:
        return "no answer yet"
    conditions = [mapping(each) for each in items(mapping(found.get("status")).get("conditions"))]
    true = {each.get("type"): each for each in conditions if each.get("status") == "True"}
    if "Provisioned" in true:
        return None
    if (failed := true.get("Failed")) is not None:
        why = failed.get("message") or failed.get("reason") or "no reason given"
        return f"it has failed and is not tried again unless it is deleted: {why}"
    said = [each["message"] for each in conditions if each.get("message")]
    return str(said[-1]) if said else "no answer yet"
