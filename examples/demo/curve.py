"""The learning curve of CartPole, from a job's profilings or from what its coordinator printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

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


@dataclass(frozen=True, slots=True)
class Returns:
    """Mean returns over time, and the moments at which the job scaled its collectors."""

    profilings: Mapping[str, Any]
    notable: ClassVar[float] = 50.0

    @property
    def value(self) -> float:
        """The last mean return."""
        return self._points()[1][-1]

    def sentence(self) -> str:
        """How far it is."""
        return f"mean return {self.value:.0f} of 500"

    def changes(self) -> Iterator[str]:
        """A line for each time that the job was scaled."""
        for seconds, change in self._scaling():
            yield f"Scaling: {seconds:.1f} s into training the job asked for {change:+d}"

    def draw_terminal(self) -> str:
        """The curve in characters: scaling moments are vertical lines."""
        seconds, returns = self._points()
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plot_size(WIDTH, HEIGHT)
        plotext.plot(seconds, returns, marker="braille")
        plotext.horizontal_line(SOLVED)
        for when, _ in self._scaling():
            plotext.vertical_line(when)
        plotext.xlabel("seconds of training; vertical lines: the job scaled its collectors")
        text: str = plotext.uncolorize(plotext.build())
        return text

    def draw_png(self, path: Path, *, title: str) -> None:
        """Write the curve as a picture, each scaling moment marked with what changed."""
        seconds, returns = self._points()
        with mpl.rc_context({"font.size": 10}):
            figure = Figure(figsize=(8, 4.5), layout="constrained")
            axes = figure.add_subplot()
            axes.plot(seconds, returns, color="tab:blue", label="mean return")
            axes.axhline(SOLVED, color="tab:green", linestyle=":", label="solved (475)")
            for when, change in self._scaling():
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

    def _points(self) -> tuple[list[float], list[float]]:
        curve = self.profilings["curve"]
        return [point[0] for point in curve], [point[2] for point in curve]

    def _scaling(self) -> list[list[Any]]:
        scaling: list[list[Any]] = self.profilings.get("scaling", [])
        return scaling
