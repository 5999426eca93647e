"""What the first learner measures, and what it tells di-server of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import di_orchestrator as di
from di_grpo.state import State

POINTS = 150
"""Of each series in a report; with more they might not fit into a job's status."""


@dataclass(frozen=True, slots=True)
class Record:
    """The series of a training: pass@1, waiting and stale share, engines."""

    state: State

    def note(self, pass_at_1: float, *, waiting: float, stale: float) -> None:
        """Enter an evaluation, and how it goes at that moment."""
        measured = {
            "passAt1": pass_at_1,
            "waiting": round(waiting, 3),
            "stale": round(stale, 3),
            "engines": self.state.engines,
        }
        for name, value in measured.items():
            points = self.state.series.setdefault(name, [])
            points.append([round(self.state.seconds, 1), value])

    @property
    def best(self) -> float:
        """The best pass@1 so far."""
        return max((value for _, value in self.state.series.get("passAt1", [])), default=0.0)

    def profilings(self, engines: Iterable[di.Member]) -> dict[str, Any]:
        """What only this program knows; each series is thinned to the points that fit.

        Args:
            engines: who is there, and which weights each of them has.
        """
        return {
            "drained": self.state.drained,
            "lost": self.state.lost,
            "members": [{"pod": engine.pod, **engine.says} for engine in engines],
            "series": {name: _thinned(points) for name, points in self.state.series.items()},
        }


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """At most so many, the last one among them."""
    stride = -(-len(points) // POINTS) or 1
    return points[:-1:stride] + points[-1:]
