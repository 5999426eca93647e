"""What the learner measures of a training, and what it tells di-server of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

POINTS = 200
"""Of the curve in a report; with more it might not fit into a job's status."""


@dataclass(slots=True)
class Record:
    """
    Attributes:
        target: mean return at which training is over.
        curve: [seconds, environment steps, mean return].
        scaling: [seconds, change of the number of collectors] for each change.
    """

    target: float
    curve: list[list[float]] = field(default_factory=list)
    scaling: list[list[float]] = field(default_factory=list)

    def profilings(
        self,
        *,
        step: int,
        env_steps: int,
        seconds: float,
        collectors: int,
        waiting: float,
        lag: float,
    ) -> dict[str, Any]:
        """The report; the curve is thinned to the points that fit."""
        stride = -(-len(self.curve) // POINTS) or 1
        return {
            "reportedAt": datetime.now(UTC).isoformat(timespec="seconds"),
            # Without how many there will be: who ends at a target does not know.
            "step": step,
            "envSteps": env_steps,
            "envStepsPerSec": round(env_steps / seconds, 1),
            "trainStepsPerSec": round(step / seconds, 3),
            "learners": 1,
            "collectors": collectors,
            "learnerWaitFrac": round(waiting, 4),
            "versionsBehind": round(lag, 2),
            "target": self.target,
            "curve": self.curve[:-1:stride] + self.curve[-1:],
            "scaling": self.scaling,
        }
