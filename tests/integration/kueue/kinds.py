"""Kueue's kinds, and short ways to write objects of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_kube.resources import RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, Resource
from tests.integration.kueue.process import GROUP

Object = dict[str, Any]
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"


def _resource(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(group=GROUP, version=VERSION, plural=plural, kind=kind, namespaced=namespaced)


COHORTS = _resource("cohorts", "Cohort")
TOPOLOGIES = _resource("topologies", "Topology")
CLUSTER_QUEUES = _resource("clusterqueues", "ClusterQueue")
LOCAL_QUEUES = _resource("localqueues", "LocalQueue", namespaced=True)
ADMISSION_CHECKS = _resource("admissionchecks", "AdmissionCheck")
MULTIKUEUE_CONFIGS = _resource("multikueueconfigs", "MultiKueueConfig")
MULTIKUEUE_CLUSTERS = _resource("multikueueclusters", "MultiKueueCluster")
BY_KIND = {
    each.kind: each
    for each in (
        RESOURCE_FLAVORS,
        COHORTS,
        TOPOLOGIES,
        CLUSTER_QUEUES,
        LOCAL_QUEUES,
        WORKLOADS,
        WORKLOAD_PRIORITY_CLASSES,
        ADMISSION_CHECKS,
        MULTIKUEUE_CONFIGS,
        MULTIKUEUE_CLUSTERS,
    )
}

PREEMPTING = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
"""Of a ClusterQueue: those of more priority take from those of less, and owners what they lent."""


def _body(kind: str, name: str, spec: Mapping[str, Any], namespace: str | None = None) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": {**spec}}


def resource_flavor(name: str, **spec: Any) -> Object:
    """A kind of nodes; further fields such as `nodeLabels` and `tolerations`."""
    return _body("ResourceFlavor", name, spec)


def topology(name: str, *levels: str) -> Object:
    """The labels of nodes that tell domains apart, the widest first."""
    return _body("Topology", name, {"levels": [{"nodeLabel": each} for each in levels]})


def resource_group(flavors: Mapping[str, Mapping[str, str]], **limits: str) -> Object:
    """Quotas of resources by flavor; all flavors have quotas of the same resources.

    `limits` are `borrowingLimit` and `lendingLimit` of each of them.
    """
    return {
        "coveredResources": list(next(iter(flavors.values()))),
        "flavors": [
            {
                "name": flavor,
                "resources": [
                    {"name": resource, "nominalQuota": quota, **limits}
                    for resource, quota in quotas.items()
                ],
            }
            for flavor, quotas in flavors.items()
        ],
    }


def cluster_queue(
    name: str,
    flavors: Mapping[str, Mapping[str, str]],
    *,
    cohort: str | None = None,
    weight: str | None = None,
    limits: Mapping[str, str] = {},
    **spec: Any,
) -> Object:
    """A queue of the cluster, for all namespaces.

    Args:
        name: of the queue.
        flavors: quota of each resource, by flavor.
        cohort: with whom it lends and borrows.
        weight: of its share of what is borrowed, where Kueue shares fairly.
        limits: see `resource_group`.
        spec: further fields, such as `preemption` and `stopPolicy`.
    """
    spec = {"namespaceSelector": {}, "resourceGroups": [resource_group(flavors, **limits)], **spec}
    if cohort is not None:
        spec["cohortName"] = cohort
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return _body("ClusterQueue", name, spec)


def local_queue(name: str, queue: str, namespace: str, **spec: Any) -> Object:
    """What users name, with the ClusterQueue it leads to; `stopPolicy` is a further field."""
    return _body("LocalQueue", name, {"clusterQueue": queue, **spec}, namespace)


def cohort(name: str, **spec: Any) -> Object:
    """Queues that lend to one another: for quota of its own, or one cohort in another."""
    return _body("Cohort", name, spec)


def priority_class(name: str, value: int) -> Object:
    """A name for a priority of Workloads."""
    body = {"apiVersion": API_VERSION, "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
    return body | {"value": value, "description": ""}


def workload(
    name: str, queue: str, cpu: str, *, count: int = 1, priority: int = 0, **spec: Any
) -> Object:
    """What asks for quota: `count` pods of so many cores."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pods = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    podset = {"name": "main", "count": count, "template": pods}
    return _body(
        "Workload", name, {"queueName": queue, "priority": priority, "podSets": [podset], **spec}
    )


def is_admitted(workload: Object) -> bool:
    """Whether its pods may run: its quota is reserved and all checks are passed."""
    return condition(workload, "Admitted").get("status") == "True"


def condition(body: Object, kind: str) -> Object:
    """The condition of that type; nothing of it where there is none."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})
