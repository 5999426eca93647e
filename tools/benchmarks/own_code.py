"""How soon an own program runs in four pods after `di submit`, and again after each `di push`.

    python -m tools.benchmarks.own_code [--pushes 20]

On a node that runs containers, with the image present. Each program prints the time at which it
starts, by the clock of this machine. Keeps JSON in out/bench/own_code.json.
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
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from di_cluster.cluster import Cluster
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until
from tools.benchmarks.processes import ROOT

OUT = ROOT / "out/bench"
PODS = 4
_JOB = "own"
_PATIENCE = 120.0
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


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def result(rounds: Sequence[tuple[float, float]]) -> OwnCodeResult:
    """Return the figures of all rounds, of which the first is the submission."""
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
        ]
    )


def _round(kubectl: Kubectl, folder: Path, number: int, *command: str) -> tuple[float, float]:
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
    with tempfile.TemporaryDirectory() as folder:
        words = ("--name", _JOB, "--collectors", str(PODS - 1), "--image", image)
        rounds = [_round(kubectl, Path(folder), 0, "submit", "train.py", *words)]
        rounds += [_round(kubectl, Path(folder), 1 + each, "push", _JOB) for each in range(pushes)]
    return result(rounds)


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
