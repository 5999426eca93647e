"""Transforms that keep only the needed fields of objects, because the rest would take most of the
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.explain.suspender import spec_writers
from di_api.field_error import items, mapping
from di_api.ownership import controlling_job
from di_api.phase import has_finished
from di_api.pods.main_container import ENDED
from di_kube.packed import Packed

Object = dict[str, Any]

_PACKED: Final = ("spec", "status")
_POD_STATUS: Final = (
    *("phase", "reason", "message", "conditions", "startTime"),
    *("initContainerStatuses", "containerStatuses"),
)
_EVENT: Final = (
    *("type", "reason", "message", "count", "series", "involvedObject", "source"),
    *("firstTimestamp", "lastTimestamp", "eventTime"),
)
_MOST_OF_A_WORD: Final = 500
_CONTAINER: Final = ("name", "image", "resources", "restartPolicy", "restartPolicyRules")
_NODE_META: Final = ("name", "namespace", "uid", "resourceVersion", "labels")


def slim_job(job: Object) -> Mapping[str, Any]:
    """Return a job without managedFields, except for those that tell who suspended it; packed if it
    has ended, as most jobs have, and few of them are looked at.
    """
    metadata = _without(job["metadata"])
    if mapping(job.get("spec")).get("suspend") is True:
        metadata["managedFields"] = spec_writers(job)
    kept = {**job, "metadata": metadata}
    if has_finished(job):
        return Packed(kept, packed=_PACKED)
    return kept


def slim_pod(pod: Object) -> Mapping[str, Any]:
    """Return the state of a pod, packed if it has ended; of a pod without a job only its resources
    and its node.
    """
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
    for key in (
        "nodeSelector",
        "tolerations",
        "affinity",
        "schedulingGates",
        "restartPolicy",
        "resources",
    ):
        if key in spec:
            kept["spec"][key] = spec[key]
    kept["spec"]["initContainers"] = [
        _container(each) for each in items(spec.get("initContainers"))
    ]
    kept["spec"]["containers"] = [
        {**_container(each), **_command(mapping(each))} for each in items(spec.get("containers"))
    ]
    if volumes := _claims(spec):
        kept["spec"]["volumes"] = volumes
    kept["status"] = {key: status[key] for key in _POD_STATUS if key in status}
    return Packed(kept, packed=_PACKED) if status.get("phase") in ENDED else kept


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


def _claims(spec: Mapping[str, Any]) -> list[Object]:
    """Return the volumes that are claims: the events of these explain why a pod has no node."""
    key = "persistentVolumeClaim"
    volumes = map(mapping, items(spec.get("volumes")))
    return [{key: volume[key]} for volume in volumes if key in volume]


def _command(container: Mapping[str, Any]) -> Object:
    """Return the command of a program, which has the host names that it asks for."""
    return {
        key: [word[:_MOST_OF_A_WORD] for word in items(container.get(key)) if isinstance(word, str)]
        for key in ("command", "args")
        if key in container
    }


def _container(container: object) -> Object:
    found = mapping(container)
    return {key: found[key] for key in _CONTAINER if key in found}


def _without(metadata: Mapping[str, Any]) -> Object:
    return {key: value for key, value in metadata.items() if key != "managedFields"}
