"""What the first learner measures, and what it tells di-server of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from di_grpo.scaling import Window
from di_grpo.state import State

POINTS = 150
"""Of each series in a report; with more they might not fit into a job's status."""


@dataclass(frozen=True, slots=True)
class Record:
    """The series of a training: pass@1, waiting and stale share, engines."""

    state: State
    target: float

    def note(self, pass_at_1: float, window: Window) -> None:
        """Enter an evaluation, and how it goes at that moment."""
        measured = {
            "passAt1": pass_at_1,
            "waiting": round(window.waiting, 3),
            "stale": round(window.stale, 3),
            "engines": self.state.engines,
        }
        for name, value in measured.items():
            points = self.state.series.setdefault(name, [])
            points.append([round(self.state.seconds, 1), value])

    @property
    def best(self) -> float:
        """The best pass@1 so far."""
        return max((value for _, value in self.state.series.get("passAt1", [])), default=0.0)

    def profilings(self, window: Window) -> dict[str, Any]:
        """The report; each series is thinned to the points that fit."""
        return {
            "reportedAt": datetime.now(UTC).isoformat(timespec="seconds"),
            # Without how many there will be: who ends at a target does not know.
            "step": self.state.version,
            "learnerWaitFrac": round(window.waiting, 4),
            "collectors": self.state.engines,
            "drained": self.state.drained,
            "lost": self.state.lost,
            "target": self.target,
            "series": {name: _thinned(points) for name, points in self.state.series.items()},
        }


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """At most so many, the last one among them."""
    stride = -(-len(points) // POINTS) or 1
    return points[:-1:stride] + points[-1:]
