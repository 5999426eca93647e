"""A picture of the trials of a simulated sweep, and of their shares of the nodes, over time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")
_STOPPED, _ENDED, _BEST = "#d9b48f", "#99a8b2", "#1f6f8b"
_MOMENTS: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A trial that ran on a node, between two simulated seconds."""

    index: int
    begin: float
    end: float
    is_stopped: bool


def draw(trials: Sequence[Ran], best: int, nodes: int, file: Path) -> None:
    """Write a PNG: a bar for each trial on its node, and below the share of each kind of trial."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for trial, node in zip(trials, placed(trials), strict=True):
        colour = _colour(trial, best)
        width = trial.end - trial.begin
        above.barh(node, width, left=trial.begin, height=0.8, color=colour, edgecolor="white")
    above.set_ylabel("node")
    above.set_yticks(range(nodes))
    above.set_title(f"{len(trials)} trials on {nodes} nodes: each bar is one trial", fontsize=10)
    end = max(each.end for each in trials)
    moments = [end * index / _MOMENTS for index in range(_MOMENTS)]
    kinds = {"stopped early": _STOPPED, "ran to its end": _ENDED, "the best one": _BEST}
    shares = [
        [
            sum(each.begin <= at < each.end and _colour(each, best) == colour for each in trials)
            / nodes
            for at in moments
        ]
        for colour in kinds.values()
    ]
    below.stackplot(moments, shares, labels=list(kinds), colors=list(kinds.values()))
    below.set_ylim(0, 1)
    below.set_ylabel("share of nodes")
    below.set_xlabel("seconds")
    below.legend(loc="upper right", fontsize=8, ncols=3)
    # Without the program's name and version, so that the same numbers give the same file.
    figure.savefig(file, dpi=110, metadata={"Software": None})


def placed(trials: Sequence[Ran]) -> list[int]:
    """Return the node of each trial: the lowest one that is free when it begins."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found: dict[int, int] = {}
    count = 0
    for trial in sorted(trials, key=lambda each: (each.begin, each.index)):
        while busy and busy[0][0] <= trial.begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, count)
            count += 1
        node = heapq.heappop(free)
        heapq.heappush(busy, (trial.end, node))
        found[trial.index] = node
    return [found[each.index] for each in trials]


def _colour(trial: Ran, best: int) -> str:
    if trial.index == best:
        return _BEST
    return _STOPPED if trial.is_stopped else _ENDED
