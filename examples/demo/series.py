"""What the job of examples/grpo measures over time, from its profilings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import matplotlib as mpl
import plotext
from matplotlib.figure import Figure

WIDTH, HEIGHT, ENGINES_HEIGHT = 78, 20, 8
LEARNED, ENGINES = "passAt1", "engines"
SHARES = {
    LEARNED: ("pass@1", "braille", "tab:blue"),
    "waiting": ("learner waits", "w", "tab:orange"),
    "stale": ("samples stale", "s", "tab:red"),
}
"""The series that are parts of one, with their names, markers and colours."""


@dataclass(frozen=True, slots=True)
class Series:
    """pass@1, how the learner's time and the samples are spent, and the number of engines."""

    profilings: Mapping[str, Any]
    notable: ClassVar[float] = 0.1

    @property
    def value(self) -> float:
        """The last pass@1."""
        return self._points(LEARNED)[1][-1]

    def sentence(self) -> str:
        """How far it is."""
        return f"pass@1 {self.value:.2f} of {self.profilings['target']:.2f}"

    def changes(self) -> Iterator[str]:
        """A line for each time that the number of engines was another one."""
        for (_, before), (seconds, after) in pairwise(zip(*self._points(ENGINES), strict=True)):
            if before != after:
                yield f"Scaling: {before:.0f} -> {after:.0f} engines, {seconds:.1f} s into training"

    def draw_terminal(self) -> str:
        """Two pictures in characters, one above the other: the shares, and the engines."""
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plot_size(WIDTH, HEIGHT)
        for name, (label, marker, _) in SHARES.items():
            plotext.plot(*self._points(name), marker=marker, label=label)
        plotext.horizontal_line(self.profilings["target"])
        plotext.ylim(0, 1)
        shares: str = plotext.uncolorize(plotext.build())
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plot_size(WIDTH, ENGINES_HEIGHT)
        seconds, engines = self._points(ENGINES)
        plotext.plot(seconds, engines, marker="braille")
        plotext.ylim(0, max(engines) + 1)
        plotext.xlabel("seconds of training; below: rollout engines")
        return f"{shares}\n{plotext.uncolorize(plotext.build())}"

    def draw_png(self, path: Path, *, title: str) -> None:
        """Write both as a picture."""
        with mpl.rc_context({"font.size": 10}):
            figure = Figure(figsize=(8, 6), layout="constrained")
            shares, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
            for name, (label, _, color) in SHARES.items():
                shares.plot(*self._points(name), color=color, label=label)
            target = self.profilings["target"]
            shares.axhline(target, color="tab:green", linestyle=":", label=f"target ({target})")
            shares.set(ylabel="share", title=title, ylim=(0, 1))
            figure.legend(loc="outside lower center", ncols=len(SHARES) + 1)
            seconds, engines = self._points(ENGINES)
            below.step(seconds, engines, where="post", color="tab:purple")
            below.set(xlabel="seconds of training", ylabel="engines", ylim=(0, max(engines) + 1))
            figure.savefig(path, dpi=120)

    def _points(self, name: str) -> tuple[list[float], list[float]]:
        series = self.profilings["series"][name]
        return [point[0] for point in series], [point[1] for point in series]
