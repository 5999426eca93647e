"""The plots of docs/explanation/performance.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from tools.benchmarks import report, samples
from tools.benchmarks.testbed import CEILING, OPERATOR, RIVAL

mpl.use("Agg")
Results = Mapping[str, Any]

_OURS, _BARE, _OTHER = "#1f6f8b", "#99a8b2", "#d9b48f"


CAPTIONS = {
    "throughput": "200 jobs of 4 pods: jobs per second",
    "many-jobs": "10,000 jobs: rate and memory",
    "latency": "What one job waits for",
}


def file_name(plot: str) -> str:
    """The name of a plot's file."""
    return f"performance-{plot}.png"


def draw(results: Results, folder: Path) -> None:
    """Write the plots as PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    makers = {"throughput": throughput, "many-jobs": many_jobs, "latency": latency}
    for name in CAPTIONS:
        # Without the program's name and version, so that the same numbers give the same file.
        figure = makers[name](results)
        figure.savefig(folder / file_name(name), dpi=110, metadata={"Software": None})


def throughput(results: Results) -> Figure:
    """Jobs a second of 200 jobs of 4 pods, under each candidate."""
    rates = {
        kind: samples.median(
            [r["jobs_per_second"] for r in results["jobs_of_4"]["runs"] if r["candidate"] == kind]
        )
        for kind in (OPERATOR, RIVAL, CEILING)
    }
    bars = {
        "Kubeflow training-operator": (rates[RIVAL], _OTHER),
        "DI Orchestrator": (rates[OPERATOR], _OURS),
        "bare client, no decisions": (rates[CEILING], _BARE),
    }
    figure = Figure(figsize=(8, 2.2), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh(
        list(bars), [rate for rate, _ in bars.values()], color=[color for _, color in bars.values()]
    )
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    axes.set_xlabel("jobs per second, 200 jobs of 4 pods")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def many_jobs(results: Results) -> Figure:
    """Rate and memory while 10,000 jobs go through."""
    run = next(r for r in results["many_jobs"]["runs"] if r["candidate"] == OPERATOR)
    done = [run["jobs"] * part // len(run["rates"]) for part in range(1, len(run["rates"]) + 1)]
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    rate, memory = figure.subplots(1, 2)
    for axes, values, label in (
        (rate, run["rates"], "jobs per second"),
        (memory, run["memory_mib"], "resident memory, MiB"),
    ):
        axes.plot(done, values, color=_OURS, marker="o")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("jobs finished")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def latency(results: Results) -> Figure:
    """Median and 99th percentile of what one job waits for."""
    cases = report.latency_cases(results["latency"])
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    for axes, what, label in zip(
        figure.subplots(1, 2, sharey=True),
        ("create_to_pods_ms", "ready_to_running_ms"),
        ("create to all 4 pods, ms", "last pod ready to Running, ms"),
        strict=True,
    ):
        places = range(len(cases))
        for shift, key, color in ((0.2, "p99", _BARE), (-0.2, "p50", _OURS)):
            values = [(case[what] or {key: 0.0})[key] for case in cases.values()]
            drawn = axes.barh([at + shift for at in places], values, 0.4, color=color, label=key)
            axes.bar_label(drawn, fmt="%.0f", padding=3)
        axes.set_yticks(list(places), list(cases))
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    return figure
