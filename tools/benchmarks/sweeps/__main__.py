"""A sweep of 64 trials with early stopping and without, as processes of this machine.

python -m tools.benchmarks.sweeps [--trials 64] [--parallelism 8] [--step-seconds 0.7]

The program sleeps for each of its 27 steps, and its value is a function of two parameters and the
step. Printed are the best trial, and what the trials took.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

STEPS: Final = 27
_PROGRAM: Final = """
import argparse, math, time
import di_orchestrator as di

parser = argparse.ArgumentParser()
for name in ("--lr", "--momentum", "--seconds"):
    parser.add_argument(name, type=float)
given = parser.parse_args()
top = 100 * math.exp(-((math.log10(given.lr) + 2) ** 2) - 4 * (given.momentum - 0.6) ** 2)
with di.training(total_steps=27) as run:
    for step in range(1, 28):
        if run.stopping:
            break
        with run.iteration(samples=1):
            time.sleep(given.seconds)
        run.report(step, score=top * (1 - math.exp(-step / 8)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a sweep found and took.

    Attributes:
        steps: of all trials, by their last reports.
        trial_seconds: of all trials together.
        seconds: from the start of the command to its end.
    """

    best: str
    value: float
    steps: int
    trial_seconds: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--parallelism", type=int, default=8)
    parser.add_argument("--step-seconds", type=float, default=0.7)
    given = parser.parse_args()
    print("| | best | value | steps | seconds of trials | seconds |\n|---|---|---|---|---|---|")
    for name, stopping in (("early stopping", {"firstStep": 2, "reduction": 3}), ("none", None)):
        found = run(_manifest(given, stopping))
        print(
            f"| {name} | {found.best} | {found.value:.4f} | {found.steps:,} | "
            f"{found.trial_seconds:,.0f} | {found.seconds:,.0f} |",
            flush=True,
        )


def run(manifest: dict[str, Any]) -> Result:
    """Run a sweep in a folder of its own."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(_PROGRAM)
        file = Path(folder) / "sweep.json"
        file.write_text(json.dumps(manifest))
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "di_local", "run", str(file)],
            env={**os.environ, "XDG_STATE_HOME": folder},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds = time.monotonic() - began
        (kept,) = Path(folder).glob("di-orchestrator/runs/*/trials.json")
        found = json.loads(kept.read_text())
    trials = found["trials"]
    return Result(
        best=trials[found["best"]]["name"],
        value=found["value"],
        steps=sum(int(each["step"] or 0) for each in trials),
        trial_seconds=sum(each["seconds"] for each in trials),
        seconds=seconds,
    )


def _manifest(given: argparse.Namespace, stopping: dict[str, int] | None) -> dict[str, Any]:
    command = [sys.executable, "train.py", "--seconds", str(given.step_seconds)]
    container = {"name": "di-container", "image": "none", "command": command}
    pod = {"terminationGracePeriodSeconds": 5, "containers": [container]}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DISweep",
        "metadata": {"name": "bench"},
        "spec": {
            "objective": {"metric": "score"},
            "maxTrials": given.trials,
            "parallelism": given.parallelism,
            **({} if stopping is None else {"earlyStopping": stopping}),
            "parameters": [
                {"name": "lr", "argument": "--lr", "logUniform": {"min": 1e-5, "max": 1}},
                {"name": "momentum", "argument": "--momentum", "uniform": {"min": 0, "max": 1}},
            ],
            "template": {
                "spec": {
                    "backoffLimit": 0,
                    "tasks": [{"type": "learner", "template": {"spec": pod}}],
                }
            },
        },
    }


if __name__ == "__main__":
    main()
