"""A cluster in a fake API server, which the documents' pictures show."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.api_server import StandIn
from tests.unit.cli.conftest import EVENTS, JOBS, PODS, job, node, pod

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""By the fake's clock."""
SHOWN = "grpo-7b"
"""The job that has curves."""
FAILED = "cartpole"
_POINTS = 90
UNSEEN = range(39, 46)
"""Steps in the gap of its history."""
_GPUS = 8


def build(world: StandIn) -> None:
    """Fill an empty fake."""
    for index in range(6):
        world.put(f"/api/v1/nodes/gpu-{index}", node(f"gpu-{index}", _GPUS))
    cordoned = node("gpu-6", _GPUS)
    cordoned["spec"]["unschedulable"] = True
    world.put("/api/v1/nodes/gpu-6", cordoned)
    _put(world, _shown(0), "2026-03-01T10:20:00Z", owner="ann")
    _roles(world, SHOWN, "gpu-0", "gpu-1", collectors=4)
    running = (("halfcheetah", 3, "bob"), ("ppo-atari", 2, "ann"), ("impala-50", 8, "chen"))
    for place, (name, collectors, owner) in enumerate(running):
        body = _running(name, collectors, step=20 + 25 * place)
        _put(world, body, f"2026-03-01T0{6 + place}:40:00Z", owner=owner)
        _roles(world, name, f"gpu-{2 + place}", f"gpu-{3 + place}", collectors=collectors)
    _failing(world)
    for name, reason, message in (
        ("judge-70b", "WaitingForNodes", "needs 8 GPUs on one node; the freest has 4"),
        ("sweep-12", "QuotaExceeded", "exceeded quota: team, used: pods=40, limited: pods=40"),
    ):
        _put(world, _waiting(name, reason, message), "2026-03-01T11:38:00Z", owner="chen")
    ended = job("dqn-baseline", "Succeeded", completionTimestamp="2026-03-01T09:14:00Z")
    ended["status"] |= {"progress": {"step": 100, "totalSteps": 100}, "restarts": 0}
    ended["status"]["taskStatus"] = {"learner": {"Succeeded": 1}, "collector": {"Succeeded": 2}}
    _put(world, ended, "2026-03-01T05:00:00Z", owner="bob")


def report(world: StandIn) -> Iterator[None]:
    """Have the shown job report, once a step."""
    for point in range(1, _POINTS + 1):
        if point in UNSEEN:
            continue
        _put(world, _shown(point), "2026-03-01T10:20:00Z", owner="ann")
        yield


def _shown(point: int) -> Object:
    rng = random.Random(point)
    at = NOW - timedelta(minutes=_POINTS - point, seconds=1)
    share = point / _POINTS
    collectors = 2 if point < 30 else 4
    body = _running(SHOWN, 4, step=max(1, round(62 * share)))
    body["status"] |= {
        "taskStatus": {"learner": {"Running": 1}, "collector": {"Running": collectors}},
        "startTime": "2026-03-01T10:20:20Z",
        "profilings": {
            "reportedAt": at.isoformat(),
            "episodeReturn": 480 / (1 + math.exp(-9 * (share - 0.42))) + rng.gauss(0, 11),
            "envStepsPerSec": collectors * 610 + rng.gauss(0, 60),
            "trainStepsPerSec": 300 + 40 * collectors + rng.gauss(0, 18),
            "learnerWaitFrac": max(0.02, (0.5 if collectors == 2 else 0.08) + rng.gauss(0, 0.03)),
            "collectors": collectors,
        },
        "failures": [
            {
                "time": "2026-03-01T10:47:30Z",
                "pod": f"{SHOWN}-collector-1",
                "exitCode": 137,
                "reason": "OOMKilled",
            }
        ],
        "restarts": 1,
    }
    return body


def _running(name: str, collectors: int, *, step: int) -> Object:
    body = job(name, "Running", restarts=0, startTime="2026-03-01T09:00:00Z")
    body["spec"]["tasks"][1] |= {"replicas": collectors, "maxReplicas": 8}
    body["status"] |= {
        "replicas": collectors + 1,
        "readyReplicas": collectors + 1,
        "taskStatus": {"learner": {"Running": 1}, "collector": {"Running": collectors}},
        "progress": {"step": step, "totalSteps": 100},
    }
    minutes = 6 * (100 - step) / 10
    body["status"]["expectedCompletion"] = {
        key: (NOW + timedelta(minutes=minutes * share)).isoformat()
        for key, share in (("earliest", 0.8), ("expected", 1.0), ("latest", 1.4))
    }
    body["status"]["conditions"][0] |= {
        "message": f"{collectors + 1} of {collectors + 1} pods ready",
        "lastTransitionTime": "2026-03-01T11:00:20Z",
    }
    return body


def _measured(world: StandIn, body: Object, index: int) -> None:
    """What metrics-server measures of a pod."""
    metadata = {key: body["metadata"][key] for key in ("name", "labels")}
    usage = {"cpu": f"{3420 if index == 0 else 610 + index}m", "memory": f"{9216 >> index}Mi"}
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/rl/pods/{metadata['name']}"
    world.put(path, {"metadata": metadata, "containers": [{"usage": usage}]})


def _roles(world: StandIn, name: str, first: str, second: str, *, collectors: int) -> None:
    for index, task in enumerate(["learner", *["collector"] * collectors]):
        body = pod(name, task, max(0, index - 1), index)
        gpus = "4" if task == "learner" else "1"
        requests = {"cpu": "4", "memory": "16Gi"} if task == "learner" else {"cpu": "1"}
        resources = {"limits": {"nvidia.com/gpu": gpus}, "requests": requests}
        body["spec"] = {
            "nodeName": first if index < 3 else second,
            "containers": [{"name": "di-container", "resources": resources}],
        }
        key = body["metadata"]["name"]
        world.put(f"{PODS}/{key}", body)
        _measured(world, body, index)
        world.logs[key] = [
            f"2026-03-01T11:{40 + line // 60:02}:{line % 60:02}Z {_said(task, line)}"
            for line in range(40 + index)
        ]
    for reason, clock, message in (
        ("JobStarting", "10:20:20", "all 5 pods are created"),
        ("JobRunning", "10:48:40", "all pods are ready"),
        ("JobRestarting", "10:47:30", f"{name}-collector-1 failed: exit code 137 (OOMKilled)"),
        ("JobRescheduling", "10:59:10", "collector has 4 replicas in place of 2"),
    ):
        if name == SHOWN:
            first = "10:21:10" if reason == "JobRunning" else clock
            _event(world, name, reason, clock, message, first=first)


def _said(task: str, line: int) -> str:
    if task == "learner":
        step, loss = 5200 + line * 10, 0.41 - line * 0.004
        return f"step {step}  loss {loss:.3f}  return {402 + line * 1.7:.1f}"
    return f"episode {911 + line}  return {398 + line * 1.9:.1f}  length {480 + line}"


def _failing(world: StandIn) -> None:
    message = (
        "container di-container was OOM-killed with 4Gi of memory, the most that growMemory "
        f"allows; pod {FAILED}-learner-0 failed first: exit code 137 (OOMKilled)"
    )
    failed = _condition("Failed", "OOMLimit", message, "2026-03-01T11:19:00Z")
    body = job(FAILED, "Failed", conditions=[failed], restarts=3)
    body["status"] |= {
        "progress": {"step": 21, "totalSteps": 100},
        "taskStatus": {"learner": {"Failed": 1}, "collector": {"Running": 0}},
        "completionTimestamp": "2026-03-01T11:19:00Z",
        "failures": [
            {
                "time": f"2026-03-01T{clock}Z",
                "pod": f"{FAILED}-learner-0",
                "exitCode": 137,
                "reason": "OOMKilled",
            }
            for clock in ("10:42:07", "11:02:40", "11:14:10", "11:18:58")
        ],
    }
    _put(world, body, "2026-03-01T10:30:00Z", owner="ann")
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T11:18:58Z"}
    containers = [{"name": "di-container", "state": {"terminated": ended}, "restartCount": 0}]
    found = pod(
        FAILED, "learner", 0, 0, phase="Failed", conditions=[], containerStatuses=containers
    )
    world.put(f"{PODS}/{FAILED}-learner-0", found)
    world.logs[f"{FAILED}-learner-0"] = [
        '2026-03-01T11:18:57Z   File "learner.py", line 88, in push',
        "2026-03-01T11:18:58Z MemoryError",
    ]
    for reason, clock in (("JobStarting", "10:30:10"), ("JobRunning", "10:31:00")):
        _event(world, FAILED, reason, clock, "all 3 pods are there")
    _event(world, FAILED, "JobFailed", "11:19:00", "all 3 restarts are used", kind="Warning")


def _waiting(name: str, reason: str, message: str) -> Object:
    condition = _condition("Pending", reason, message, "2026-03-01T11:38:00Z")
    body = job(name, "Pending", conditions=[condition], restarts=0, progress={}, profilings={})
    body["status"]["taskStatus"] = {}
    return body


def _condition(kind: str, reason: str, message: str, since: str) -> Object:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


def _event(
    world: StandIn,
    name: str,
    reason: str,
    clock: str,
    message: str,
    *,
    kind: str = "Normal",
    first: str = "",
) -> None:
    key = f"{name}-{reason}"
    body = {
        "metadata": {"name": key, "namespace": "rl"},
        "type": kind,
        "reason": reason,
        "message": message,
        "count": 1 if first in ("", clock) else 2,
        "firstTimestamp": f"2026-03-01T{first or clock}Z",
        "lastTimestamp": f"2026-03-01T{clock}Z",
        "involvedObject": {"kind": "DIJob", "name": name, "namespace": "rl"},
    }
    world.put(f"{EVENTS}/{key}", body)


def _put(world: StandIn, body: Object, created: str, *, owner: str) -> None:
    body["metadata"] |= {"creationTimestamp": created, "labels": {"owner": owner}}
    world.put(f"{JOBS}/{body['metadata']['name']}", body)
