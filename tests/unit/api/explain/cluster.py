"""Objects as an API server of Kubernetes 1.33 gives them, cut to what says something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from di_api.explain import Facts

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
POD = "cartpole-learner-0"
STORY = f"1 pod failed, all 3 restarts are used (backoffLimit 3); pod {POD} failed first: exit code"
BLOCKED = f"1 of 1 pod cannot run, {POD} first: "
TAINTED = (
    "0/2 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: present}. "
    "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
FULL = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: x}."


def time(minute: int) -> str:
    """A minute of the hour before now."""
    return f"2026-03-01T11:{minute:02}:00Z"


def job(phase: str = "", reason: str = "", message: str = "", **changes: Any) -> Object:
    """A job whose phase has a reason; `spec` and `status` are merged."""
    status: Object = {}
    if phase:
        condition = {
            "type": phase,
            "status": "True",
            "reason": reason or f"Job{phase}",
            "message": message,
            "lastTransitionTime": time(50),
        }
        others = changes.pop("conditions", [])
        status = {"phase": phase, "conditions": [condition, *others], "restarts": 0}
    return {
        "metadata": {
            "name": "cartpole",
            "namespace": "rl",
            "creationTimestamp": time(0),
            **changes.get("metadata", {}),
        },
        "spec": {"backoffLimit": 3, "tasks": [], **changes.get("spec", {})},
        "status": {**status, **changes.get("status", {})},
    }


def condition(
    kind: str, *, value: bool, message: str = "", reason: str = "", at: int = 40
) -> Object:
    return {
        "type": kind,
        "status": str(value),
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": time(at),
    }


def pod(
    name: str = POD,
    *,
    phase: str = "Pending",
    node: str = "",
    ready: bool = False,
    waiting: tuple[str, str] | None = None,
    ended: Mapping[str, Any] | None = None,
    last: Mapping[str, Any] | None = None,
    init: bool = False,
    restarts: int = 0,
    conditions: Sequence[Object] = (),
    spec: Object | None = None,
    **status: Any,
) -> Object:
    container: Object = {"name": "prepare" if init else "di-container", "restartCount": restarts}
    if waiting is not None:
        reason, message = waiting
        container["state"] = {"waiting": {"reason": reason, "message": message}}
    elif ended is not None:
        container["state"] = {"terminated": {"finishedAt": time(45), **ended}}
    if last is not None:
        container["lastState"] = {"terminated": {"finishedAt": time(44), **last}}
    kind = "initContainerStatuses" if init else "containerStatuses"
    of_ready = {"type": "Ready", "status": str(ready)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {**({"nodeName": node} if node else {}), **(spec or {})},
        "status": {
            "phase": phase,
            "conditions": [of_ready, *conditions],
            kind: [container],
            **status,
        },
    }


def unscheduled(message: str, reason: str = "Unschedulable") -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": time(41),
    }


def event(
    reason: str, message: str, *, kind: str = "Warning", about: str = POD, uid: str = "uid-gone"
) -> Object:
    return {
        "type": kind,
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "name": about, "uid": uid},
        "lastTimestamp": time(46),
    }


def unhealthy(probe: str, uid: str) -> list[Object]:
    """Events of a probe that fails, and of the container's end for it, with restartPolicy Never."""
    return [
        event("Unhealthy", f"{probe} probe failed: ", uid=uid),
        event("Killing", "Stopping container di-container", kind="Normal", uid=uid),
    ]


def node(
    name: str = "gpu-1",
    *,
    ready: str = "True",
    message: str = "",
    labels: Mapping[str, str] | None = None,
) -> Object:
    ready_condition = {
        "type": "Ready",
        "status": ready,
        "message": message,
        "lastTransitionTime": time(43),
    }
    return {
        "metadata": {"name": name, "labels": {**(labels or {})}},
        "status": {"conditions": [ready_condition]},
    }


def facts(job: Object | None, *pods: Object, **others: Any) -> Facts:
    return Facts(name="cartpole", namespace="rl", now=NOW, job=job, pods=pods, **others)


def seen(
    phase: str = "", reason: str = "", message: str = "", *pods: Object, **others: Any
) -> Facts:
    """Of a job in a phase; `spec`, `status`, `metadata` and `conditions` are the job's."""
    of_job = ("spec", "status", "metadata", "conditions")
    changes = {name: others.pop(name) for name in of_job if name in others}
    return facts(job(phase, reason, message, **changes), *pods, **others)


def failed(code: int, reason: str = "Error", **changes: Any) -> Object:
    """The first pod, which has ended with the code."""
    ended = {"exitCode": code, "reason": reason, **changes.pop("ended", {})}
    return pod(phase="Failed", node="gpu-1", ended=ended, **changes)
