"""Objects of the API server for tests of the allocator, and what it makes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from di_api.names import API_VERSION, KIND
from di_operator.allocator.forecast.arrivals import LeftRoom
from di_operator.allocator.model.job import NodeList
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.lifecycle.observed.specs import read_spec

Object = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SLOT = "example.org/slot"
GANG: Object = {"preemptible": False, "scheduling": {"gang": True}}


def node(name: str, slots: int) -> Object:
    allocatable = {SLOT: str(slots), "pods": "99"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "status": {"allocatable": allocatable},
    }


def task(kind: str, replicas: int = 1, **fields: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"limits": {SLOT: "1"}}}
    return {
        "name": kind,
        "type": kind,
        "replicas": replicas,
        "template": {"spec": {"containers": [container]}},
        **fields,
    }


def job(name: str, *tasks: Object, phase: str = "Running", **fields: Any) -> Object:
    status = fields.pop("status", {})
    if phase in ("Succeeded", "Failed"):
        # As the operator writes an end; the phase alone would not be believed.
        end = {"type": phase, "status": "True", "reason": "r", "message": "m"}
        ended = {"completionTimestamp": "2026-01-01T11:30:00Z", "conditions": [end]}
        status = {**ended, **status}
    metadata = {
        "name": name,
        "namespace": "rl",
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": "2026-01-01T11:00:00Z",
    }
    return {
        "metadata": {**metadata, **fields.pop("metadata", {})},
        "spec": {"preemptible": True, "tasks": list(tasks), **fields},
        "status": {"phase": phase, **status},
    }


def pod(
    owner: str, kind: str, node: str, *, ending: bool = False, phase: str = "Running"
) -> Object:
    reference = {"apiVersion": API_VERSION, "kind": KIND, "name": owner, "uid": f"uid-{owner}"}
    metadata: Object = {
        "name": f"{owner}-{kind}-0",
        "namespace": "rl",
        "uid": f"uid-{owner}-{kind}-0",
        "labels": {"diengine/job": owner},
        "ownerReferences": [{**reference, "controller": True}],
    }
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:30Z"
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


def other(node: str) -> Object:
    container = {"resources": {"requests": {SLOT: "1"}}}
    return {
        "metadata": {"name": "web", "namespace": "web", "uid": "uid-web"},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def snapshot(
    *jobs: Object,
    pods: list[Object] | None = None,
    others: list[Object] | None = None,
    granted: dict[str, NodeList] | None = None,
    departed: list[Object] | None = None,
    rejected: dict[str, str] | None = None,
    nodes: list[Object] | None = None,
    read_spec: Any = read_spec,
) -> SchedulingSnapshot:
    reader = ClusterReader(read_spec)
    reader.take(
        Changes.all(
            jobs=jobs,
            departed=departed or [],
            pods=numbered(pods or []),
            others=numbered(others or []),
            nodes=[node("a", 4), node("b", 4), *(nodes or [])],
        )
    )
    for uid, why in (rejected or {}).items():
        reader.set_aside(uid, why, NOW)
    return reader.read(granted=granted or {}, now=NOW)


def numbered(pods: list[Object]) -> list[Object]:
    """Each with a UID of its own."""
    return [
        {**found, "metadata": {**found["metadata"], "uid": f"pod-{number}"}}
        for number, found in enumerate(pods)
    ]


def left(found: SchedulingSnapshot) -> dict[str, int]:
    """Whole slots that an arrival can have."""
    return free(LeftRoom(found, found.held).nodes)


def free(nodes: Any) -> dict[str, int]:
    """Whole slots that are free, by node."""
    return {name: found.free[SLOT] // 1000 for name, found in nodes.items()}


def placed(**nodes: str) -> NodeList:
    return NodeList.of({name: tuple(found.split()) for name, found in nodes.items()})
