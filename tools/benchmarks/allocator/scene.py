"""The cluster of `rounds`: jobs that report, their pods, nodes, and pods of others."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from di_api.names import API_VERSION, KIND, LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME

Object = dict[str, Any]

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
GPU: Final = "nvidia.com/gpu"
GPUS: Final = 4
OTHERS: Final = 15
USED: Final = 0.8
LARGEST: Final = 64


@dataclass(slots=True)
class Scene:
    """What the cluster holds; jobs as they are, by name, pods and nodes as they are made."""

    jobs: int
    nodes: int
    reports: Sequence[Object]
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    bodies: dict[str, Object] = field(default_factory=dict)

    def make_jobs(self) -> None:
        left = [GPUS] * int(self.nodes * USED)
        row = 0
        for number in range(self.jobs):
            wanted = self.rng.choice((1, 2, 4))
            while row < len(left) and not left[row]:
                row += 1
            placed: tuple[str, ...] = ()
            if row < len(left):
                count = min(wanted, left[row])
                left[row] -= count
                placed = (_node_name(row),) * count
            self.make_job(number, placed)

    def make_job(self, number: int, placed: tuple[str, ...], *, reports: bool = True) -> str:
        name = f"job-{number:05}"
        status: Object = {"phase": "Running" if placed else "Pending", "replicas": len(placed)}
        status["conditions"] = [
            {"type": status["phase"], "status": "True", "reason": "r", "message": "of it"}
        ]
        if placed:
            status |= {"placement": {"learner": placed}, "placementTime": time_of(0)}
        if reports:
            status["profilings"] = self.report(0)
        self.bodies[name] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": name,
                "namespace": f"team-{number % 20}",
                "uid": f"1c1d3c4e-0000-4000-8000-{number:012}",
                "generation": 1,
                "creationTimestamp": time_of(-self.rng.randint(0, 36000)),
            },
            "spec": _spec(),
            "status": status,
        }
        return name

    def report(self, at: float) -> Object:
        """A report at a time in seconds; no two measure exactly the same."""
        report: Object = json.loads(json.dumps(self.rng.choice(self.reports)))
        for seen in report["observations"]:
            for key in ("computing", "iteration"):
                seen[key] *= self.rng.uniform(1.0, 1.02) + 0.02 * (key == "iteration")
        return {**report, "reportedAt": time_of(at), "envSteps": self.rng.randint(0, 100_000)}

    def pods(self) -> Iterator[Object]:
        for name in self.bodies:
            yield from self.pods_of(name)

    def pods_of(self, name: str) -> Iterator[Object]:
        placed = (self.bodies[name]["status"].get("placement") or {}).get("learner", ())
        for index, node in enumerate(placed):
            yield _pod_of(self.bodies[name], index, node)

    def others(self) -> Iterator[Object]:
        for number in range(self.nodes * OTHERS):
            yield _other(number, _node_name(number % self.nodes))

    def rooms(self) -> Iterator[Object]:
        for row in range(self.nodes):
            yield _node(row)


def time_of(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _node_name(row: int) -> str:
    return f"node-{row:04}.example.internal"


def _spec() -> Object:
    container = {
        "name": "di-container",
        "image": "registry.example.com/learner:1",
        "command": ["/bin/sh", "-c", "exec learner"],
        "env": [{"name": "MODE", "value": "train"}],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi", GPU: "1"},
            "limits": {"memory": "16Gi", GPU: "1"},
        },
    }
    return {
        "preemptible": True,
        "backoffLimit": 3,
        "tasks": [
            {
                "name": "learner",
                "type": "learner",
                "replicas": 1,
                "minReplicas": 1,
                "maxReplicas": LARGEST,
                "template": {
                    "spec": {
                        "containers": [container],
                        "tolerations": [{"key": GPU, "operator": "Exists"}],
                    }
                },
            }
        ],
    }


def _pod_of(job: Object, index: int, node: str) -> Object:
    metadata = job["metadata"]
    name = f"{metadata['name']}-learner-{index}"
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": metadata["name"]}
    return {
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": f"{metadata['uid']}-{index}-{node}",
            "labels": {LABEL_JOB: metadata["name"], LABEL_OPERATOR: OPERATOR_NAME},
            "ownerReferences": [{**owner, "uid": metadata["uid"], "controller": True}],
        },
        "spec": {**job["spec"]["tasks"][0]["template"]["spec"], "nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _other(number: int, node: str) -> Object:
    app = f"app-{number % 300}"
    requests = {"cpu": f"{50 * (1 + number % 7)}m", "memory": f"{64 * (1 + number % 5)}Mi"}
    containers = [
        {"name": name, "image": f"registry.example.com/{app}:1", "resources": {"requests": amounts}}
        for name, amounts in (("main", requests), ("proxy", {"cpu": "10m", "memory": "64Mi"}))
    ]
    return {
        "metadata": {
            "name": f"{app}-{number:06}",
            "namespace": f"space-{number % 50}",
            "uid": f"2c1d3c4e-0000-4000-8000-{number:012}",
            "labels": {"app": app},
        },
        "spec": {"nodeName": node, "containers": containers, "serviceAccountName": "default"},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


def _node(row: int) -> Object:
    name = _node_name(row)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-4",
        "topology.kubernetes.io/zone": f"zone-{row % 3}",
    }
    allocatable = {
        **{"cpu": "63770m", "memory": "263856796Ki", "pods": "110", GPU: str(GPUS)},
        **{"ephemeral-storage": "95551679124", "hugepages-1Gi": "0", "hugepages-2Mi": "0"},
    }
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": time_of(0), "reason": "r"}
        for kind, status in (("Ready", "True"), ("MemoryPressure", "False"))
    ]
    return {
        "metadata": {"name": name, "uid": f"3c1d3c4e-{row:04}", "labels": labels},
        "spec": {"providerID": f"x:///{row}", "taints": [{"key": GPU, "effect": "NoSchedule"}]},
        "status": {"allocatable": allocatable, "conditions": conditions, "capacity": allocatable},
    }
