"""How many rollout engines: by what the learner waits, and by what is stale when its turn comes.

Neither says it alone. Too few engines: the learner waits. Too many: it never waits, and throws away
what it cannot use in time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WAITS = 0.2
"""A learner that waits for this share of its time wants another engine."""
NOTHING_STALE = 0.02
"""As long as no more than this share of the samples is stale; beyond, an engine more would bring
what is thrown away."""
STEPS = 12
"""Steps that are looked at, the last ones."""
PAUSE_SECONDS = 8.0
"""From one change to the next: a pod starts, or ends, and then it is measured what came of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was measured of one step of the learner.

    Attributes:
        seconds: from its beginning to that of the next.
        waited: seconds of these in which there were too few samples.
        used, stale: batches trained on, and dropped.
    """

    seconds: float
    waited: float
    used: int
    stale: int


class Window:
    """The last steps, and since when there are as many engines as now (seconds of a clock)."""

    def __init__(self, now: float) -> None:
        self._steps: deque[Step] = deque(maxlen=STEPS)
        self._changed = now

    def add(self, step: Step) -> None:
        self._steps.append(step)

    def change(self, now: float) -> None:
        """Begin anew: what was measured is that of another number of engines."""
        self._steps.clear()
        self._changed = now

    def is_conclusive(self, now: float) -> bool:
        return len(self._steps) == STEPS and now - self._changed >= PAUSE_SECONDS

    @property
    def waiting(self) -> float:
        """The share of its time that the learner waited for samples."""
        seconds = sum(step.seconds for step in self._steps)
        return sum(step.waited for step in self._steps) / seconds if seconds else 0.0

    @property
    def stale(self) -> float:
        """The share of the samples that were dropped."""
        stale = sum(step.stale for step in self._steps)
        brought = stale + sum(step.used for step in self._steps)
        return stale / brought if brought else 0.0


def wanted_change(*, engines: int, waiting: float, stale: float) -> int:
    """1 for one engine more, -1 for one fewer, 0 to leave it.

    One fewer if what is thrown away is more than one engine brings: those that are left bring
    enough.
    """
    if engines > 1 and stale * engines > 1:
        return -1
    if waiting >= WAITS and stale <= NOTHING_STALE:
        return 1
    return 0
