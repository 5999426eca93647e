"""Jobs, pods and Events as the API server returns them."""

from __future__ import annotations

from typing import Any

from di_api.names import ANNOTATION_RANK, API_VERSION, KIND, LABEL_TASK_NAME

UID = "8b6f0000-0000-4000-8000-000000000001"
NOON = 1_767_268_800_000
"""2026-01-01T12:00:00Z in milliseconds."""


def clock(seconds: int) -> str:
    """So many seconds after noon."""
    return f"2026-01-01T12:{seconds // 60:02}:{seconds % 60:02}Z"


def condition(kind: str, status: str, seconds: int, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": clock(seconds), **more}


def manager(name: str, seconds: int, *, subresource: str = "", spec: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {
        "manager": name,
        "time": clock(seconds),
        "fieldsV1": {"f:spec": {"f:tasks": {}}} if spec else {"f:status": {}},
    }
    return found | ({"subresource": subresource} if subresource else {})


def job(
    version: int = 10,
    *,
    generation: int = 1,
    collectors: int = 2,
    managers: tuple[dict[str, Any], ...] = (),
    uid: str = UID,
    name: str = "x",
    namespace: str = "rl",
    created: int = 0,
    changed_by: str = "",
    **status: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": generation,
            "creationTimestamp": clock(created),
            "managedFields": list(managers or (manager("kubectl-create", 0),)),
            "annotations": {
                "team": "a",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "diengine/idempotency": "[]",
                "diengine/changed-by": changed_by,
            },
        },
        "spec": {
            "tasks": [
                {"type": "learner", "name": "learner", "replicas": 1},
                {"type": "collector", "name": "collector", "replicas": collectors},
            ]
        },
        "status": status,
    }


def container(
    name: str = "di-container", *, restarts: int = 0, last: int | None = None, **state: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "restartCount": restarts, "state": state}
    if last is not None:
        found["lastState"] = {"terminated": {"exitCode": last, "finishedAt": clock(30)}}
    return found


def ended(code: int, seconds: int = 60, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": clock(seconds), "reason": reason}}


def pod(
    version: int = 20,
    *,
    node: str | None = "n1",
    phase: str = "Running",
    containers: tuple[dict[str, Any], ...] = (),
    uid: str = "pod-1",
    name: str = "x-learner-0",
    leaving: bool = False,
    owner: str | None = UID,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "rl",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": clock(5),
        "labels": {LABEL_TASK_NAME: "learner", "colour": "red"},
        "annotations": {ANNOTATION_RANK: "0", "note": "x"},
    }
    if owner:
        reference = {"apiVersion": API_VERSION, "kind": KIND, "name": "x", "uid": owner}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    if leaving:
        metadata["deletionTimestamp"] = clock(90)
    limits = {"nvidia.com/gpu": "2"}
    spec: dict[str, Any] = {
        "containers": [{"name": "di-container", "resources": {"limits": limits}}]
    }
    if node:
        spec["nodeName"] = node
    return {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase, "startTime": clock(6), "containerStatuses": list(containers)},
    }


def event(
    version: int = 30,
    *,
    uid: str = "event-1",
    namespace: str = "rl",
    about: str = UID,
    kind: str = KIND,
    count: int = 1,
    message: str = "pods failed",
) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "namespace": namespace, "resourceVersion": str(version)},
        "involvedObject": {"kind": kind, "name": "x", "uid": about},
        "type": "Warning",
        "reason": "JobRestarting",
        "message": message,
        "count": count,
        "lastTimestamp": clock(40),
    }
