"""Job completion times on the recorded workloads, beside the figures published for Pollux.

    python -m tools.benchmarks.allocator.jct [--sensitivity | --conditions | --tenants]
        [--output FOLDER]

Runs `goodput` as it is, `goodput` with the work left reported, and the references, on every
recorded workload; prints averages as shares of Pollux's. `--sensitivity` instead varies each
argument of the policy alone and draws the average over the four workloads of load 1.0;
`--conditions` compares `goodput` with itself where some jobs are silent, rigid, open-ended, all of
these, lie, or claim to take long to restore; `--tenants` has two tenants, of whom one has three
quarters of the shares and the other submits twice as much.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

from di_operator.allocator.sharing.fair_shares import DEFAULT_AGEING, DEFAULT_SHARE, read_shares
from di_simulator.application import Application, load_applications
from di_simulator.conditions import Condition
from di_simulator.main import RECORDED
from di_simulator.plots import draw_comparison, draw_heat_map, draw_tenants
from di_simulator.results import Result, Summary
from di_simulator.simulation import Setting, run

# Averages in seconds that Pollux's authors give for these files (OSDI'21, artifact).
PUBLISHED = {
    "workloads-1": 2089.0,
    "workloads-2": 3323.0,
    "workloads-3": 2188.0,
    "workloads-4": 2721.0,
}
LOADS = ("workloads", "workloads-0.5", "workloads-1.5", "workloads-2.0")
TENANTS = ("team-a", "team-b", "team-b")
SHARES = {"team-a": 3.0, "team-b": 1.0}
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
    parser.add_argument("--conditions", action="store_true")
    parser.add_argument("--tenants", action="store_true")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    applications = load_applications(RECORDED / "traces")
    if options.sensitivity:
        _vary(applications, options.output)
    elif options.conditions:
        _worsen(applications, options.output)
    elif options.tenants:
        _divide(applications, options.output)
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


def _worsen(applications: Mapping[str, Application], folder: Path) -> None:
    """Print and draw averages under each condition, as shares of the ideal's, and what lies bring.

    Lying jobs are every third; so are those they are compared with, where nobody lies.
    """
    paths = sorted((RECORDED / LOADS[0]).glob("*.csv"))
    found: list[dict[str, Any]] = []
    for known in (False, True):
        for condition in Condition:
            results = [
                run(
                    Setting(
                        workload=path,
                        policy="goodput",
                        remaining_known=known,
                        condition=condition,
                    ),
                    applications,
                    stopwatch=time.process_time,
                )
                for path in paths
            ]
            figures = {"condition": condition.value, "remaining_known": known} | _means(results)
            ideal = next(each for each in [*found, figures] if each["remaining_known"] == known)
            figures |= {
                f"{name}_share": figures[name] / ideal[name]
                for name in ("average", "third", "others")
            }
            found.append(figures)
            print(
                f"{condition:10} work left {'known' if known else 'not  '}"
                f"  average {figures['average']:6.0f} {figures['average_share']:.3f}"
                f"  every third {figures['third_share']:.3f}  others {figures['others_share']:.3f}"
                f"  p99 {figures['p99']:6.0f}  makespan {figures['makespan']:6.0f}"
                f"  restarts {figures['restarts']:4.1f}, most {figures['most_restarts']}",
                flush=True,
            )
    (folder / "conditions.json").write_text(json.dumps(found, indent=1) + "\n")
    draw_conditions(found, folder / "conditions.png")


def _divide(applications: Mapping[str, Application], folder: Path) -> None:
    """Print and draw how two tenants fare without and with shares."""
    paths = sorted((RECORDED / LOADS[0]).glob("*.csv"))
    found: list[dict[str, Any]] = []
    for policy, known in (("goodput", False), ("goodput", True), ("fit", False)):
        drawn: dict[str, Result] = {}
        for given in ({}, {"shares": SHARES}):
            settings = [
                Setting(
                    workload=path,
                    policy=policy,
                    arguments=given,
                    remaining_known=known,
                    tenants=TENANTS,
                )
                for path in paths
            ]
            results = [run(each, applications, stopwatch=time.process_time) for each in settings]
            drawn[f"{policy}, {'with' if given else 'without'} shares"] = results[0]
            figures: dict[str, Any] = {"policy": policy, "remaining_known": known} | given
            figures |= {
                name: mean(result.by_tenant[name] for result in results) for name in SHARES
            } | {"average": mean(result.summary.average for result in results)}
            figures["restarts"] = mean(result.summary.restarts for result in results)
            found.append(figures)
            print(figures, flush=True)
        name = f"tenants-{policy}{'-work-left' if known else ''}.png"
        draw_tenants(drawn, read_shares(SHARES, DEFAULT_SHARE, DEFAULT_AGEING), folder / name)
    (folder / "tenants.json").write_text(json.dumps(found, indent=1) + "\n")


def _means(results: Sequence[Result]) -> dict[str, float]:
    """Means over workloads: of all jobs, of every third (conditions change it), of the others."""
    times = [[job.completion_time for job in result.jobs] for result in results]
    others = [[seconds for number, seconds in enumerate(each) if number % 3] for each in times]
    return {
        "average": mean(result.summary.average for result in results),
        "third": mean(mean(each[::3]) for each in times),
        "others": mean(map(mean, others)),
        "p99": mean(result.summary.p99 for result in results),
        "makespan": mean(result.summary.makespan for result in results),
        "restarts": mean(result.summary.restarts for result in results),
        "most_restarts": max(job.restarts for result in results for job in result.jobs),
    }


def draw_conditions(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a PNG with a bar for each condition, without and with the work left known."""
    names = list(dict.fromkeys(each["condition"] for each in found))
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    for offset, known in ((-0.2, False), (0.2, True)):
        shares = [each["average_share"] for each in found if each["remaining_known"] == known]
        label = "work left known" if known else "work left not known"
        bars = axes.bar([at + offset for at in range(len(names))], shares, width=0.4, label=label)
        axes.bar_label(bars, fmt="%.2f", fontsize=8)
    axes.axhline(1.0, color="grey", linewidth=0.5)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("average JCT / that of ideal jobs")
    axes.legend(loc="lower right")
    figure.savefig(path, format="png", dpi=100, metadata={"Software": None})


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
