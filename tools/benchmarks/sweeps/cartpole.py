"""Early stopping of 64 trials of examples/sweep, on simulated nodes with one GPU each.

python -m tools.benchmarks.sweeps.cartpole [--trials 64] [--nodes 8] [--curves FILE]
    [--picture FILE]

Each trial is run once to its end, by the example's own program, which records the mean return and
the environment steps of every generation. Then the sweep is simulated with early stopping and
without: `di_api.sweeps.decide` decides at every report, and a node takes a second for 1,000
environment steps. So the GPU-seconds depend on no machine. The first FILE keeps the curves; the
second one gets a picture of the trials of the sweep with early stopping.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from di_api.phase import Phase
from di_api.sweeps import Space, SweepSpec, Trial, decide, load_sweep, summarize
from tools.benchmarks.sweeps.picture import Ran, draw
from tools.prepare.environments import RL_LIBRARIES

ROOT: Final = Path(__file__).parents[3]
MANIFEST: Final = ROOT / "examples" / "sweep" / "sweep.yaml"
RATE: Final = 1000.0
"""Environment steps of a node in a second."""
_WORKERS: Final = 2
_RECORDING: Final = """
import contextlib, json, sys
import di_orchestrator as di
from di_cartpole import alone

class Run:
    stopping = False
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def iteration(self, samples): return contextlib.nullcontext()
    def report(self, step, *, env_steps, episodeReturn): found.append([env_steps, episodeReturn])

di.training = lambda **_: Run()
for line in sys.stdin:
    found = []
    sys.argv = ["alone", *json.loads(line)]
    with contextlib.redirect_stdout(sys.stderr):
        alone.main()
    print(json.dumps(found), flush=True)
"""

Curve = Sequence[tuple[int, float]]
"""Environment steps and mean return after each generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a sweep found, and what it took in simulated seconds."""

    best: int
    value: float
    gpu_seconds: float
    seconds: float
    stopped: int
    trials: Sequence[Ran]


def main() -> None:
    """Record the curves if there is no file of them, and print both sweeps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--curves", type=Path)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    manifest = yaml.safe_load(MANIFEST.read_text())
    manifest["spec"] |= {"maxTrials": given.trials, "parallelism": given.nodes}
    spec = load_sweep(manifest)
    if given.curves is not None and given.curves.exists():
        curves = json.loads(given.curves.read_text())
    else:
        curves = recorded(spec)
        if given.curves is not None:
            given.curves.write_text(json.dumps(curves))
    whole = simulated(replace(spec, early_stopping=None), curves)
    stopping = simulated(spec, curves)
    print("| | best | value | GPU-seconds | seconds | stopped |\n|---|---|---|---|---|---|")
    for name, found in (("early stopping", stopping), ("none", whole)):
        print(
            f"| {name} | cartpole-{found.best} | {found.value:.1f} | {found.gpu_seconds:,.0f} | "
            f"{found.seconds:,.0f} | {found.stopped} |"
        )
    if given.picture is not None:
        draw(stopping.trials, stopping.best, given.nodes, given.picture)
    share, value = stopping.gpu_seconds / whole.gpu_seconds, stopping.value / whole.value
    print(f"GPU-seconds {share:.1%}, value {value:.1%} of the sweep without")


def recorded(spec: SweepSpec) -> list[Curve]:
    """Return the curve of every trial, from the example's own program."""
    space = Space(spec)
    (task,) = spec.template["spec"]["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    lines = [
        json.dumps([*container["args"], *_arguments(spec, space.parameters(index))])
        for index in range(space.size)
    ]
    with ThreadPoolExecutor(_WORKERS) as pool:
        parts = list(pool.map(_record, [lines[first::_WORKERS] for first in range(_WORKERS)]))
    return [parts[index % _WORKERS][index // _WORKERS] for index in range(space.size)]


def _arguments(spec: SweepSpec, parameters: Mapping[str, Any]) -> list[str]:
    return [
        word
        for each in spec.parameters
        for word in (each.argument or "", str(parameters[each.name]))
    ]


def _record(lines: Sequence[str]) -> list[Curve]:
    paths = (ROOT / "examples" / "cartpole" / "src", ROOT / "sdk" / "src")
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [RL_LIBRARIES.python(), "-c", _RECORDING],
        input="\n".join(lines),
        env={**os.environ, **one_thread, "PYTHONPATH": ":".join(map(str, paths))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def simulated(spec: SweepSpec, curves: Sequence[Curve]) -> Result:
    """Return the result of a sweep whose trials report these curves, each on a node of its own."""
    trials: dict[int, Trial] = {}
    began: dict[int, float] = {}
    reports: list[tuple[float, int, int]] = []
    now = 0.0
    while True:
        found = decide(spec, trials.values(), created=len(trials))
        trials.update({each.index: each for each in found.changed})
        for index in found.create:
            trials[index] = Trial(index=index, phase=Phase.RUNNING, gpus=1)
            began[index] = now
            heapq.heappush(reports, (now + curves[index][0][0] / RATE, index, 0))
        if found.is_over:
            break
        if not found.changed and not found.create:
            now = _report(trials, began, reports, curves)
    best = summarize(spec, trials.values())
    assert best.best is not None, "every trial reports"
    return Result(
        best=best.best,
        value=best.value or 0.0,
        gpu_seconds=sum(each.seconds for each in trials.values()),
        seconds=now,
        stopped=best.stopped,
        trials=[
            Ran(
                index=index,
                begin=began[index],
                end=began[index] + each.seconds,
                is_stopped=bool(each.stopped),
            )
            for index, each in sorted(trials.items())
        ],
    )


def _report(
    trials: dict[int, Trial],
    began: Mapping[int, float],
    reports: list[tuple[float, int, int]],
    curves: Sequence[Curve],
) -> float:
    """Let the next trial that runs report; return the time."""
    while True:
        now, index, generation = heapq.heappop(reports)
        if trials[index].is_active:
            break
    curve = curves[index]
    is_last = generation + 1 == len(curve)
    trials[index] = replace(
        trials[index],
        step=float(generation + 1),
        value=curve[generation][1],
        seconds=now - began[index],
        phase=Phase.SUCCEEDED if is_last else Phase.RUNNING,
    )
    if not is_last:
        at = began[index] + curve[generation + 1][0] / RATE
        heapq.heappush(reports, (at, index, generation + 1))
    return now


if __name__ == "__main__":
    main()
