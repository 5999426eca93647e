"""Transforms that keep only the needed fields of objects, because the rest would take most of the
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.ownership import controlling_job

Object = dict[str, Any]

_POD_STATUS: Final = (
    *("phase", "reason", "message", "conditions", "startTime"),
    *("initContainerStatuses", "containerStatuses"),
)
_EVENT: Final = (
    *("type", "reason", "message", "count", "series", "involvedObject", "source"),
    *("firstTimestamp", "lastTimestamp", "eventTime"),
)
_CONTAINER: Final = ("name", "image", "resources", "restartPolicy", "restartPolicyRules")
_NODE_META: Final = ("name", "namespace", "uid", "resourceVersion", "labels")


def slim_job(job: Object) -> Object:
    """Return a job without managedFields."""
    return {**job, "metadata": _without(job["metadata"])}


def slim_pod(pod: Object) -> Object:
    """Return the state of a pod; of a pod without a job only its resources and its node."""
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    kept: Object = {
        "metadata": _without(pod["metadata"]),
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [_container(each) for each in items(spec.get("containers"))],
        },
        "status": {"phase": status.get("phase")},
    }
    if controlling_job(pod) is None:
        names = ("name", "namespace", "uid", "resourceVersion")
        kept["metadata"] = {key: pod["metadata"].get(key) for key in names}
        return kept
    for key in ("nodeSelector", "tolerations", "affinity", "schedulingGates", "restartPolicy"):
        if key in spec:
            kept["spec"][key] = spec[key]
    kept["spec"]["initContainers"] = [
        _container(each) for each in items(spec.get("initContainers"))
    ]
    kept["status"] = {key: status[key] for key in _POD_STATUS if key in status}
    return kept


def slim_event(event: Object) -> Object:
    """Return subject, message and times of an event."""
    metadata = {k: event["metadata"].get(k) for k in ("name", "namespace", "uid")}
    version = event["metadata"].get("resourceVersion")
    kept: Object = {key: event[key] for key in _EVENT if key in event}
    return {"metadata": {**metadata, "resourceVersion": version}, **kept}


def slim_node(node: Object) -> Object:
    """Return the resources of a node, and whether it accepts pods."""
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    return {
        "metadata": {key: node["metadata"].get(key) for key in _NODE_META},
        "spec": {key: spec[key] for key in ("unschedulable", "taints") if key in spec},
        "status": {
            "allocatable": status.get("allocatable") or {},
            # Heartbeats would change each node every few minutes.
            "conditions": [
                {key: value for key, value in mapping(each).items() if key != "lastHeartbeatTime"}
                for each in items(status.get("conditions"))
            ],
        },
    }


def _container(container: object) -> Object:
    found = mapping(container)
    return {key: found[key] for key in _CONTAINER if key in found}


def _without(metadata: Mapping[str, Any]) -> Object:
    return {key: value for key, value in metadata.items() if key != "managedFields"}
