"""The learning curve of a job, drawn from its profilings or from what its coordinator printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import plotext
from matplotlib.figure import Figure

SOLVED = 475.0
WIDTH, HEIGHT = 78, 20


def read_record(log: str) -> dict[str, list[list[float]]]:
    """The curve and the scaling moments among the lines of a coordinator's log."""
    record: dict[str, list[list[float]]] = {"curve": [], "scaling": []}
    for line in log.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        for what, points in record.items():
            if isinstance(said, dict) and what in said:
                points.append(said[what])
    return record


def draw_terminal(profilings: Mapping[str, Any]) -> str:
    """The curve in characters: mean return over seconds, scaling moments as vertical lines."""
    seconds, returns = _points(profilings)
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(WIDTH, HEIGHT)
    plotext.plot(seconds, returns, marker="braille")
    plotext.horizontal_line(SOLVED)
    for when, _ in profilings.get("scaling", []):
        plotext.vertical_line(when)
    plotext.xlabel("seconds of training; vertical lines: the job scaled its collectors")
    text: str = plotext.uncolorize(plotext.build())
    return text


def draw_png(profilings: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Write the curve as a picture, each scaling moment marked with what changed."""
    seconds, returns = _points(profilings)
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(seconds, returns, color="tab:blue", label="mean return")
        axes.axhline(SOLVED, color="tab:green", linestyle=":", label="solved (475)")
        for when, change in profilings.get("scaling", []):
            axes.axvline(when, color="tab:orange", linestyle="--")
            axes.annotate(
                f"{change:+.0f} collectors",
                (when, 20),
                rotation=90,
                xytext=(4, 0),
                textcoords="offset points",
                color="tab:orange",
            )
        axes.set(xlabel="seconds of training", ylabel="mean return", title=title, ylim=(0, 520))
        axes.legend(loc="upper left")
        figure.savefig(path, dpi=120)


def _points(profilings: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    curve = profilings.get("curve", [])
    return [point[0] for point in curve], [point[2] for point in curve]
