"""How long each command of `di` takes, beside what the API server takes to answer.

    python -m tools.benchmarks.commands [--rounds 7]

A stand-in of the API server has 16 nodes and 40 jobs. Each command is a process of its own, as a
user starts it; its processor time is what the kernel charged it, its wall time that of the whole
process, with what the stand-in takes to answer. Prints a table, and keeps JSON in
out/bench/commands.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.fakes.api_server import StandIn
from tools.benchmarks.processes import ROOT

OUT: Final = ROOT / "out/bench/commands.json"
NODES, JOBS_OF_CLUSTER, WAITING = 16, 40, 8
_COMPILED_ANEW: Final = ("PYTHONDONTWRITEBYTECODE",)
_API: Final = "/apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs"
_START: Final = "from di_cli.main import main; main()"

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "list": ("list",),
    "get": ("get", "job-3", "-o", "yaml"),
    "describe": ("describe", "job-3"),
    "why": ("why", "job-3"),
    "events": ("events", "job-3"),
    "logs": ("logs", "job-3"),
    "wait": ("wait", "job-3", "--for", "phase=Running"),
    "queue": ("queue",),
    "allocation": ("allocation",),
    "simulate": ("simulate", "-f", "{manifest}"),
    "submit": ("submit", "{manifest}", "--dry-run", "server"),
    "scale": ("scale", "job-3", "collector=3"),
    "set": ("set", "job-3", "priority=high"),
    "suspend": ("suspend", "job-3"),
    "resume": ("resume", "job-3"),
    "restart": ("restart", "job-3"),
    "doctor": ("doctor",),
    "bundle": ("bundle", "job-3", "--yes", "--out", "{folder}/{round}.tar.gz"),
}
"""Those that answer and end by themselves, and do not leave the work to `kubectl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Medians of all rounds, in milliseconds."""

    processor_ms: float
    wall_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=7, help="processes of each command")
    parser.add_argument("--only", help="commands, with commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [*COMMANDS]
    found = measure(names, options.rounds)
    if not options.only:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps({name: asdict(each) for name, each in found.items()}, indent=2))
    for line in table(found):
        print(line)


def measure(names: list[str], rounds: int) -> dict[str, Taken]:
    """Run the commands by turns: what disturbs the machine for a while disturbs all of them."""
    with tempfile.TemporaryDirectory() as folder, StandIn() as world:
        fill(world)
        place = {"folder": folder, "manifest": f"{folder}/job.yaml"}
        Path(place["manifest"]).write_text(yaml.safe_dump(job("new", 0, "Pending", gpus=8)))
        kept = {key: value for key, value in os.environ.items() if key not in _COMPILED_ANEW}
        environment = {
            **kept,
            "KUBECONFIG": str(world.kubeconfig(Path(folder) / "config")),
            "XDG_STATE_HOME": folder,
        }
        # As pip leaves an installation: compiled, which the round that is not counted does.
        environment["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for number in range(-1, rounds):
            for name in names:
                given = {**place, "round": f"bundle-{number}"}
                words = [word.format_map(given) for word in COMMANDS[name]]
                found = _run(words, environment)
                if number >= 0:
                    taken[name].append(found)
    return {
        name: Taken(
            processor_ms=round(statistics.median(each[0] for each in found), 1),
            wall_ms=round(statistics.median(each[1] for each in found), 1),
        )
        for name, found in taken.items()
    }


def table(found: Mapping[str, Taken]) -> Iterator[str]:
    """The lines of docs/cli.md."""
    yield "| command | processor, ms | wall, ms |"
    yield "| --- | --- | --- |"
    for name, each in found.items():
        yield f"| `{name}` | {each.processor_ms:.0f} | {each.wall_ms:.0f} |"


def _run(words: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", _START, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    # A doctor who finds faults has done its work too.
    if process.returncode not in (0, 8):
        raise RuntimeError(f"di {' '.join(words)}: {said}")
    return (usage.ru_utime + usage.ru_stime) * 1000, wall * 1000


def fill(world: StandIn) -> None:
    """Nodes, jobs that run, jobs that wait for the allocator, and their pods."""
    for index in range(NODES):
        world.put(f"/api/v1/nodes/gpu-{index}", node(f"gpu-{index}"))
    for index in range(JOBS_OF_CLUSTER):
        phase = "Pending" if index < 0 or index >= JOBS_OF_CLUSTER - WAITING else "Running"
        body = job(f"job-{index}", index, phase)
        world.put(f"{_API}/job-{index}", body)
        if phase == "Running":
            for pod in pods(f"job-{index}", index):
                name = pod["metadata"]["name"]
                world.put(f"/api/v1/namespaces/rl/pods/{name}", pod)
                world.logs[name] = [f"2026-03-01T11:59:00Z step {step}" for step in range(100)]
    data = {"DI_OPERATOR_POLICY": "goodput", "DI_OPERATOR_POLICY_ARGUMENTS": "{}"}
    path = "/api/v1/namespaces/di-system/configmaps/di-operator"
    world.put(path, {"metadata": {"name": "di-operator"}, "data": data})


def node(name: str) -> dict[str, Any]:
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {}},
        "spec": {},
        "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def job(name: str, index: int, phase: str, *, gpus: int = 2) -> dict[str, Any]:
    """A preemptible job of a learner and two collectors."""
    at = f"gpu-{index % NODES}"
    status: dict[str, Any] = {
        "phase": phase,
        "replicas": 3,
        "readyReplicas": 3 if phase == "Running" else 0,
        "conditions": [
            {
                "type": phase,
                "status": "True",
                "reason": f"Job{phase}" if phase == "Running" else "WaitingForNodes",
                "message": "as it is",
                "lastTransitionTime": "2026-03-01T11:30:00Z",
            }
        ],
    }
    if phase == "Running":
        status |= {
            "startTime": "2026-03-01T09:00:00Z",
            "progress": {"step": 10 + index, "totalSteps": 100},
            "placement": {"learner": [at], "collector": [at, at]},
        }
    learner = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {
            "name": name,
            "namespace": "rl",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": "2026-03-01T09:00:00Z",
        },
        "spec": {
            "preemptible": True,
            "tasks": [
                _task("learner", 1, learner),
                _task("collector", 2, {}, minReplicas=1, maxReplicas=4),
            ],
        },
        "status": status,
    }


def pods(name: str, index: int) -> Iterator[dict[str, Any]]:
    """Those of such a job, on its node."""
    for rank, (task, place) in enumerate((("learner", 0), ("collector", 0), ("collector", 1))):
        limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}} if task == "learner" else {}
        yield {
            "metadata": {
                "name": f"{name}-{task}-{place}",
                "namespace": "rl",
                "uid": f"uid-{name}-{task}-{place}",
                "creationTimestamp": "2026-03-01T09:00:00Z",
                "labels": {"diengine/job": name, "diengine/task-name": task},
                "annotations": {"diengine/rank": str(rank)},
                "ownerReferences": [
                    {
                        "apiVersion": "diengine.opendilab.org/v2alpha1",
                        "kind": "DIJob",
                        "name": name,
                        "uid": f"uid-{name}",
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "nodeName": f"gpu-{index % NODES}",
                "containers": [{"name": "di-container", "image": "i", **limits}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }


def _task(kind: str, replicas: int, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    containers = [{"name": "di-container", "image": "i", **fields}]
    template = {"spec": {"containers": containers}}
    return {"name": kind, "type": kind, "replicas": replicas, **more, "template": template}


if __name__ == "__main__":
    main()
