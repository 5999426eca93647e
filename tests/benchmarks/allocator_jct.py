"""Job completion times on the recorded workloads, beside the figures published for Pollux.

    python -m tests.benchmarks.allocator_jct [--sensitivity] [--output FOLDER]

Runs `goodput` as it is, `goodput` with the work left reported, and the references, on every
recorded workload; prints averages as shares of Pollux's. `--sensitivity` instead varies each
argument of the policy alone and draws the average over the four workloads of load 1.0.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from di_simulator.application import Application, load_applications
from di_simulator.main import RECORDED
from di_simulator.plots import draw_comparison, draw_heat_map
from di_simulator.results import Summary
from di_simulator.simulation import Setting, run

# Averages in seconds that Pollux's authors give for these files (OSDI'21, artifact).
PUBLISHED = {
    "workloads-1": 2089.0,
    "workloads-2": 3323.0,
    "workloads-3": 2188.0,
    "workloads-4": 2721.0,
}
LOADS = ("workloads", "workloads-0.5", "workloads-1.5", "workloads-2.0")
VARIED: Mapping[str, Sequence[float]] = {
    "horizon_seconds": (60.0, 90.0, 120.0, 180.0, 300.0, 600.0),
    "growth": (2.0, 4.0, 8.0, 64.0),
    "decay": (0.0, 0.25, 0.5, 0.75, 1.0),
    "decay_after": (900.0, 3600.0, 14400.0),
    "fairness": (0.25, 0.5, 1.0, 2.0),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, print, and write JSON and PNG."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("out/allocator"))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    applications = load_applications(RECORDED / "traces")
    if options.sensitivity:
        _vary(applications, options.output)
    else:
        _compare(applications, options.output)


def _compare(applications: Mapping[str, Application], folder: Path) -> None:
    paths = [path for load in LOADS for path in sorted((RECORDED / load).glob("*.csv"))]
    summaries: list[Summary] = []
    for path in paths:
        for policy, known in (("goodput", False), ("goodput", True), *_references(path)):
            setting = Setting(workload=path, policy=policy, remaining_known=known)
            result = run(setting, applications, stopwatch=time.process_time)
            name = f"{policy}, work left known" if known else policy
            found = asdict(result.summary) | {"policy": name}
            summaries.append(Summary(**found))
            print(_line(summaries[-1]), flush=True)
            if path == paths[0]:
                draw_heat_map(result, folder / f"{name.replace(', ', '-').replace(' ', '-')}.png")
    for policy in ("goodput", "goodput, work left known"):
        averages = [s.average for s in summaries if s.policy == policy and s.workload in PUBLISHED]
        share = sum(averages) / sum(PUBLISHED.values())
        print(
            f"{policy}: mean average {sum(averages) / len(averages):.0f}, {share:.3f} of Pollux's"
        )
    (folder / "jct.json").write_text(json.dumps([asdict(s) for s in summaries], indent=1) + "\n")
    draw_comparison([s for s in summaries if s.workload in PUBLISHED], folder / "jct.png")


def _references(path: Path) -> list[tuple[str, bool]]:
    if path.parent.name != LOADS[0]:
        return []
    return [("tiresias", False), ("optimus", False)]


def _line(s: Summary) -> str:
    share = f"{s.average / PUBLISHED[s.workload]:.3f}" if s.workload in PUBLISHED else "     "
    return (
        f"{s.workload:16} {s.policy:26} average {s.average:6.0f} {share}  p50 {s.p50:5.0f}"
        f"  p99 {s.p99:6.0f}  makespan {s.makespan:6.0f}  restarts {s.restarts:4.1f}"
        f"  GPUs {s.utilisation:4.0%}  {s.decision_mean * 1e3:5.1f} ms"
    )


def _vary(applications: Mapping[str, Application], folder: Path) -> None:
    paths = sorted((RECORDED / LOADS[0]).glob("*.csv"))
    found: dict[str, list[tuple[float, float]]] = {}
    for argument, values in VARIED.items():
        for value in values:
            given: dict[str, Any] = {argument: value}
            times = [
                run(
                    Setting(workload=path, policy="goodput", arguments=given),
                    applications,
                    stopwatch=time.process_time,
                ).summary.average
                for path in paths
            ]
            share = sum(times) / sum(PUBLISHED.values())
            found.setdefault(argument, []).append((value, share))
            print(f"{argument} {value:g}: {share:.3f} of Pollux's", flush=True)
    (folder / "sensitivity.json").write_text(json.dumps(found, indent=1) + "\n")
    draw_sensitivity(found, folder / "sensitivity.png")


def draw_sensitivity(found: Mapping[str, Sequence[tuple[float, float]]], path: Path) -> None:
    """Write a PNG with one panel an argument."""
    figure = Figure(figsize=(13, 3), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True)
    for axes, (argument, points) in zip(panels, found.items(), strict=True):
        axes.plot(range(len(points)), [share for _, share in points], marker="o")
        axes.set_xticks(range(len(points)), [f"{value:g}" for value, _ in points])
        axes.axhline(1.0, color="grey", linewidth=0.5)
        axes.set_title(argument)
    panels[0].set_ylabel("average JCT / Pollux's")
    figure.savefig(path, format="png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
