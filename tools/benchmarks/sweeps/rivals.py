"""The same search with `di sweep --local`, with Optuna alone and with Ray Tune.

python -m tools.benchmarks.sweeps.rivals [--trials 16] [--step-seconds 0.7] [--only NAME]

Each searches the same two parameters at random, with successive halving from step 2 by a third, two
trials at a time. A step sleeps, so that a busy machine changes little. Printed are the lines that a
user writes, the seconds from the start of the command to its end, the steps in that time, which
differ with the random choices, and what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.prepare.environments import RL_LIBRARIES, TRACKERS

ROOT: Final = Path(__file__).parents[3]
_SCORE: Final = """
import math, pathlib, sys, time

STEPS = pathlib.Path(__file__).with_name("steps")

def score(lr, momentum, step):
    with STEPS.open("a") as file:
        file.write("x")
    time.sleep(SECONDS)
    top = 100 * math.exp(-((math.log10(lr) + 2) ** 2) - 4 * (momentum - 0.6) ** 2)
    return top * (1 - math.exp(-step / 8))
"""
"""What all of them train; no line of it counts."""
_TRAIN: Final = """
import argparse
import di_orchestrator as di
from training import score

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--momentum", type=float)
given = parser.parse_args()
with di.training(total_steps=27) as run:
    for step in range(1, 28):
        if run.stopping:
            break
        run.report(step, score=score(given.lr, given.momentum, step))
"""
_SWEEP: Final = (
    "di sweep train.py --local --metric score --trials TRIALS --first-step 2 "
    "-- --lr 1e-5..1:log --momentum 0..1"
)
"""The command, which counts as a line."""
_OPTUNA: Final = """
import optuna
from training import score

def objective(trial):
    lr = trial.suggest_float("lr", 1e-5, 1, log=True)
    momentum = trial.suggest_float("momentum", 0, 1)
    for step in range(1, 28):
        value = score(lr, momentum, step)
        trial.report(value, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return value

study = optuna.create_study(
    direction="maximize",
    sampler=optuna.samplers.RandomSampler(seed=0),
    pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3),
)
study.optimize(objective, n_trials=TRIALS, n_jobs=2)
print(study.best_value)
"""
_RAY: Final = """
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from training import score

def train(config):
    for step in range(1, 28):
        tune.report({"score": score(config["lr"], config["momentum"], step)})

ray.init(num_cpus=2)
space = {"lr": tune.loguniform(1e-5, 1), "momentum": tune.uniform(0, 1)}
tuner = tune.Tuner(
    train,
    param_space=space,
    tune_config=tune.TuneConfig(
        metric="score",
        mode="max",
        num_samples=TRIALS,
        scheduler=ASHAScheduler(max_t=27, grace_period=2, reduction_factor=3),
    ),
)
print(tuner.fit().get_best_result().metrics["score"])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One way to search.

    Attributes:
        files: what a user writes, by name.
        command: runs it; returns nothing before its Python is installed.
        best: returns the best value, from its output and its folder.
    """

    files: Mapping[str, str]
    command: Callable[[], list[str]]
    best: Callable[[str, Path], float]

    @property
    def lines(self) -> int:
        """Lines that are not empty."""
        return sum(bool(line.strip()) for text in self.files.values() for line in text.splitlines())


def _last(output: str, _: Path) -> float:
    return float(output.rsplit(maxsplit=1)[-1])


def _kept(_: str, folder: Path) -> float:
    (kept,) = folder.glob("di-orchestrator/runs/*/trials.json")
    return float(json.loads(kept.read_text())["value"])


SEARCHES: Final[Mapping[str, Search]] = {
    "di sweep": Search(
        files={"train.py": _TRAIN, "sweep.sh": _SWEEP},
        command=lambda: ["sh", "sweep.sh"],
        best=_kept,
    ),
    "Optuna": Search(
        files={"search.py": _OPTUNA},
        command=lambda: [str(TRACKERS.python()), "search.py"],
        best=_last,
    ),
    "Ray Tune": Search(
        files={"search.py": _RAY},
        command=lambda: [str(RL_LIBRARIES.python()), "search.py"],
        best=_last,
    ),
}


def main() -> None:
    """Search with each, and print a row for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--step-seconds", type=float, default=0.7)
    parser.add_argument("--only", choices=SEARCHES)
    given = parser.parse_args()
    print("| | lines | seconds | steps | best |\n|---|---|---|---|---|")
    for name, search in SEARCHES.items():
        if given.only in (None, name):
            seconds, steps, best = _measured(search, given.trials, given.step_seconds)
            print(f"| {name} | {search.lines} | {seconds:.0f} | {steps} | {best:.1f} |", flush=True)


def _measured(search: Search, trials: int, step_seconds: float) -> tuple[float, int, float]:
    command = search.command()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "training.py").write_text(_SCORE.replace("SECONDS", str(step_seconds)))
        for name, text in search.files.items():
            (folder / name).write_text(text.replace("TRIALS", str(trials)))
        environment = {
            **os.environ,
            "HOME": temporary,
            "XDG_STATE_HOME": temporary,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # Workers of Ray start elsewhere.
            "PYTHONPATH": temporary,
        }
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        seconds = time.monotonic() - began
        steps = (folder / "steps").stat().st_size
        return seconds, steps, search.best(done.stdout, folder)


if __name__ == "__main__":
    main()
