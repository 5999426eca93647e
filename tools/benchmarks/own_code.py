"""How soon an own program runs in four pods after `di submit`, and again after each `di push`.

    python -m tools.benchmarks.own_code [--pushes 20]

On a node that runs containers, with the image present. Each program prints the time at which it
starts, by the clock of this machine. A watch has the time of each step of each pod. Keeps JSON in
out/bench/own_code.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, TypedDict

from di_api.names import DI_CONTAINER
from di_cluster.cluster import Cluster
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from di_kube.config import load_config
from di_kube.resources import PODS as POD_RESOURCE
from di_kube.sync import SyncKubeClient
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until
from tools.benchmarks.processes import ROOT

OUT = ROOT / "out/bench"
PODS = 4
_JOB = "own"
_PATIENCE = 120.0
STAGES: Final = ("returned", "ending", "gone", "created", "running")
"""The end of the command, and what happens to a pod and its replacement meanwhile and after it. The
kubelet writes that a container runs up to a second after its start.
"""
_PROGRAM = """
import time
print({round}, time.time(), flush=True)
time.sleep(3600)
"""


class OwnCodeResult(TypedDict):
    """Seconds from the start of the command to the first line of the first pod, and of all pods."""

    pods: int
    pushes: int
    submit_first: float
    submit_all: float
    push_first_p50: float
    push_first_p95: float
    push_all_p50: float
    push_all_p95: float
    stages: dict[str, float]


def stage_of(kind: str, pod: Mapping[str, Any]) -> str:
    """Return the stage that a pod has reached by an event of a watch."""
    if kind == "DELETED":
        return "gone"
    if pod["metadata"].get("deletionTimestamp"):
        return "ending"
    status = pod.get("status") or {}
    states = {
        each["name"]: each.get("state") or {} for each in status.get("containerStatuses") or ()
    }
    return "running" if "running" in states.get(DI_CONTAINER, {}) else "created"


@dataclass(slots=True)
class Watched:
    """The first time at which each pod was seen in each stage, by its UID and the stage."""

    seen: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, kind: str, pod: Mapping[str, Any], now: float) -> None:
        """Add an event."""
        self.seen.setdefault((str(pod["metadata"]["uid"]), stage_of(kind, pod)), now)

    def add_end(self, number: int) -> None:
        """Add the end of the command of a round."""
        self.seen[f"command {number}", "returned"] = time.time()

    def after(self, began: float, ended: float) -> dict[str, list[float]]:
        """Return the seconds from the begin of a round to each stage of each pod."""
        found: dict[str, list[float]] = {stage: [] for stage in STAGES}
        for (_, stage), time_of in self.seen.items():
            if began <= time_of <= ended:
                found[stage].append(time_of - began)
        return found


@contextmanager
def watching(kubeconfig: Path) -> Iterator[Watched]:
    """Watch the pods of the job."""
    found, ended = Watched(), threading.Event()

    def follow(kube: SyncKubeClient) -> None:
        while not ended.is_set():
            _, version = kube.list(POD_RESOURCE, "default")
            for kind, pod in kube.watch(
                POD_RESOURCE, "default", resource_version=version, timeout_seconds=30
            ):
                if kind != "BOOKMARK":
                    found.add(kind, pod, time.time())
                if ended.is_set():
                    return

    with SyncKubeClient(config=load_config(str(kubeconfig))) as kube:
        thread = threading.Thread(target=follow, args=(kube,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            thread.join()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def result(
    rounds: Sequence[tuple[float, float]], stages: Sequence[Mapping[str, Sequence[float]]]
) -> OwnCodeResult:
    """Return the figures of all rounds, of which the first is the submission, and the medians of
    the stages of all pushes.
    """
    of_stage = {stage: [each for one in stages for each in one[stage]] for stage in STAGES}
    (submit_first, submit_all), *pushes = rounds
    first, whole = zip(*pushes, strict=True)
    return {
        "pods": PODS,
        "pushes": len(pushes),
        "submit_first": round(submit_first, 1),
        "submit_all": round(submit_all, 1),
        "push_first_p50": round(percentile(first, 0.5), 1),
        "push_first_p95": round(percentile(first, 0.95), 1),
        "push_all_p50": round(percentile(whole, 0.5), 1),
        "push_all_p95": round(percentile(whole, 0.95), 1),
        "stages": {stage: round(median(each), 1) for stage, each in of_stage.items() if each},
    }


def table(found: OwnCodeResult) -> str:
    """Return the figures as a table in Markdown."""
    return "\n".join(
        [
            "| | first pod, s | all pods, s |",
            "|---|---|---|",
            f"| `di submit` | {found['submit_first']} | {found['submit_all']} |",
            f"| `di push`, p50 | {found['push_first_p50']} | {found['push_all_p50']} |",
            f"| `di push`, p95 | {found['push_first_p95']} | {found['push_all_p95']} |",
            "",
            "| seconds after `di push` | median of all pods |",
            "|---|---|",
            *(f"| {stage} | {seconds} |" for stage, seconds in found["stages"].items()),
        ]
    )


def _round(
    kubectl: Kubectl, folder: Path, watched: Watched, number: int, *command: str
) -> tuple[float, float]:
    """Run a command with the program of a round; return the seconds to its first lines."""
    (folder / "train.py").write_text(_PROGRAM.format(round=number))
    began = time.time()
    subprocess.run(
        [Path(sys.executable).parent / "di", *command, "--namespace", "default"],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    watched.add_end(number)

    def starts() -> list[float]:
        names = [f"{_JOB}-learner-0", *(f"{_JOB}-collector-{index}" for index in range(PODS - 1))]
        # kubectl may write a line of its own first, about the container that it chose.
        logs = [kubectl.logs(name, namespace="default").splitlines() for name in names]
        lines = [each[-1].split() for each in logs]
        assert [line[0] for line in lines] == [str(number)] * PODS
        return [float(line[1]) for line in lines]

    found = wait_until(starts, _PATIENCE, what=f"the lines of round {number}", every=0.5)
    return min(found) - began, max(found) - began


def measure(kubectl: Kubectl, release: Release, pushes: int) -> OwnCodeResult:
    """Install the release, submit a job, and push so many changes."""
    images = release.build_images()
    release.install(images)
    image = images["server"].reference
    stages = []
    with tempfile.TemporaryDirectory() as folder, watching(kubectl.kubeconfig) as watched:
        words = ("--name", _JOB, "--collectors", str(PODS - 1), "--image", image)
        rounds = [_round(kubectl, Path(folder), watched, 0, "submit", "train.py", *words)]
        for number in range(1, 1 + pushes):
            began = time.time()
            rounds.append(_round(kubectl, Path(folder), watched, number, "push", _JOB))
            stages.append(watched.after(began, time.time()))
    return result(rounds, stages)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pushes", type=int, default=20)
    arguments = parser.parse_args()
    reporter = Reporter(sys.stderr)
    cluster = Cluster(f"bench-{secrets.token_hex(3)}", profile="node", reporter=reporter)
    try:
        cluster.up()
        kubectl = Kubectl(program=cluster.binary("kubectl"), kubeconfig=cluster.kubeconfig)
        release = Release(cluster, root=ROOT, reporter=reporter)
        found = measure(kubectl, release, arguments.pushes)
    finally:
        cluster.down(purge=True)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "own_code.json").write_text(json.dumps(found, indent=2) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
