"""The command in this process, with a fake API server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from di_cli.main import run
from di_cli.survey import REFUSED_JOB
from tests.fakes.api_server import Object, StandIn
from tests.unit.cli import installation
from tests.unit.cli.installation import NOW

JOBS = "/apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs"
PODS = "/api/v1/namespaces/rl/pods"
EVENTS = "/api/v1/namespaces/rl/events"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/rl/workloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True, slots=True)
class Di:
    """Runs commands."""

    world: StandIn
    capture: Any

    def __call__(self, *arguments: str) -> Said:
        self.capture.readouterr()
        code = run(arguments)
        out, err = self.capture.readouterr()
        return Said(code=code, out=out, err=err)

    def job(self, name: str = "cartpole", phase: str = "Running", **changes: Any) -> Object:
        """Put a job of a learner and two collectors into the cluster."""
        found = job(name, phase, **changes)
        self.world.put(f"{JOBS}/{name}", found)
        return found

    def node(self, name: str, gpus: int) -> None:
        """Put a node into the cluster."""
        self.world.put(f"/api/v1/nodes/{name}", node(name, gpus))

    def pod(self, job: str, task: str, index: int, rank: int, **status: Any) -> str:
        """Put a pod of a job into the cluster."""
        name = f"{job}-{task}-{index}"
        self.world.put(f"{PODS}/{name}", pod(job, task, index, rank, **status))
        return name


def condition(kind: str, reason: str, message: str = "", *, at: str = "11:30:00") -> Object:
    """A condition that is True since a time of this day."""
    found = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {**found, "lastTransitionTime": f"2026-03-01T{at}Z"}


def terminated(code: int, reason: str, at: str) -> Object:
    """The fields of a pod's status when its container has failed."""
    ended = {"exitCode": code, "reason": reason, "finishedAt": f"2026-03-01T{at}Z"}
    containers = [{"name": "di-container", "state": {"terminated": ended}}]
    return {"phase": "Failed", "conditions": [], "containerStatuses": containers}


def queued(message: str, *, name: str = "waits", reason: str = "WaitingForQuota") -> Object:
    """A job that waits in queue team-a, with Kueue's message."""
    found = job(name, "Pending")
    found["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    found["metadata"]["annotations"] = {"diengine/suspended-by": "queue"}
    found["spec"]["suspend"] = True
    found["status"]["conditions"] = [
        condition("Pending", "JobQueued", "waits in a queue", at="11:48:00"),
        condition("Queued", reason, message, at="11:48:00"),
    ]
    return found


def workload(name: str, job: str, *, priority: int = 0, at: str = "10:00", **status: str) -> Object:
    """What asks Kueue for quota for a job; `status` is of conditions, such as `QuotaReserved`."""
    owner = {"kind": "DIJob", "name": job, "uid": f"uid-{job}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "rl",
            "uid": f"uid-workload-{name}",
            "creationTimestamp": f"2026-03-01T{at}:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"queueName": "team-a", "priority": priority},
        "status": {"conditions": [{"type": kind, "status": is_} for kind, is_ in status.items()]},
    }


def ends(seconds: float, *, earliest: float = 0.0, latest: float = 1e6) -> Object:
    """What the operator expects of a job, in seconds from now."""
    times = {"earliest": earliest, "expected": seconds, "latest": latest}
    return {key: (NOW + timedelta(seconds=left)).isoformat() for key, left in times.items()}


def job(name: str, phase: str, **changes: Any) -> Object:
    status = {
        "phase": phase,
        "replicas": 3,
        "readyReplicas": 3 if phase == "Running" else 0,
        "restarts": 1,
        "taskStatus": {"learner": {"Running": 1}, "collector": {"Running": 2}},
        "progress": {"step": 62, "totalSteps": 100},
        "expectedCompletion": ends(2206),
        "profilings": {"learnerWaitFrac": 0.08},
        "conditions": [condition(phase, f"Job{phase}", "3 of 3 pods ready")],
    }
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {
            "name": name,
            "namespace": "rl",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": "2026-03-01T09:00:00Z",
            "managedFields": [{}],
        },
        "spec": {
            "backoffLimit": 3,
            "priority": "normal",
            "tasks": [_task("learner", 1, gpu), _task("collector", 2, {}, maxReplicas=4)],
        },
        "status": {**status, **changes},
    }


def _task(kind: str, replicas: int, container: Object, **fields: Any) -> Object:
    containers = [{"name": "di-container", "image": f"example/{kind}", **container}]
    template = {"spec": {"containers": containers}}
    return {"name": kind, "type": kind, "replicas": replicas, **fields, "template": template}


def pod(job: str, task: str, index: int, rank: int, **status: Any) -> Object:
    name = f"{job}-{task}-{index}"
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "4"}}} if task == "learner" else {}
    version = "diengine.opendilab.org/v2alpha1"
    owner = {"apiVersion": version, "kind": "DIJob", "name": job, "uid": f"uid-{job}"}
    return {
        "metadata": {
            "name": name,
            "namespace": "rl",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-03-01T09:00:00Z",
            "labels": {"diengine/job": job, "diengine/task-name": task},
            "annotations": {"diengine/rank": str(rank)},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "di-container", **gpus}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }


def node(name: str, gpus: int) -> Object:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {}},
        "spec": {},
        "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture(scope="session")
def _server() -> Iterator[StandIn]:
    with StandIn() as world:
        yield world


@pytest.fixture
def world(_server: StandIn, tmp_path: Path) -> Iterator[StandIn]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(_server.kubeconfig(tmp_path / "config")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield _server
    time.tzset()
    with _server.changed:
        _server.objects.clear()
        _server.refusals.clear()
        _server.logs.clear()
        _server.requests.clear()


@pytest.fixture
def di(world: StandIn, capsys: pytest.CaptureFixture[str]) -> Di:
    return Di(world, capsys)


def install(di: Di) -> None:
    """Put a release into the cluster whose webhook is away, and a quota that is used up."""
    world, authority = di.world, installation.authority(900)
    world.put("/version", {"metadata": {}, **installation.version()})
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    world.put(reviews, {"metadata": {}, **installation.rights(installation.ALL)})
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dijobs.diengine.opendilab.org"
    world.put(crd, installation.definition())
    hooks = "/apis/admissionregistration.k8s.io/v1"
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        world.put(f"{hooks}/{kind}/di", installation.configuration(authority))
    for component, ready in (("operator", 2), ("webhook", 0), ("server", 2)):
        path = f"/apis/apps/v1/namespaces/di-system/deployments/di-{component}"
        world.put(path, installation.deployment(component, ready=ready))
    leases = "/apis/coordination.k8s.io/v1/namespaces"
    world.put(f"{leases}/di-system/leases/di-operator", installation.lease())
    world.put(f"{leases}/kube-node-lease/leases/gpu-1", installation.lease("gpu-1"))
    world.put("/api/v1/nodes/gpu-1", node("gpu-1", 8))
    world.put("/api/v1/namespaces/rl/resourcequotas/team", installation.quota("10", "10"))
    webhook = "validate.dijobs.diengine.opendilab.org"
    words = f'failed calling webhook "{webhook}": no endpoints available'
    probe = f"{JOBS}/{REFUSED_JOB['metadata']['name']}"
    world.refusals["POST", probe] = {"code": 500, "reason": "InternalError", "message": words}
    path = "/api/v1/namespaces/di-system/services/https:di-server:8443/proxy/readyz"
    world.refusals["GET", path] = {"code": 403, "reason": "Forbidden", "message": "forbidden"}


def address_behind(page: str) -> str:
    """Return the URL that a page of `di dashboard` leads to, which the browser is given."""
    (found,) = re.findall(r"url=([^\"]+)", Path(urlsplit(page).path).read_text())
    return unescape(found)
