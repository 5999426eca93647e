"""How many collectors: by what the learner waits, and by what it drops.

A collector that is behind the learner does no harm here, since V-trace corrects for it. What cannot
be corrected is an unroll that nobody has the time to learn from.
"""

from __future__ import annotations

from dataclasses import dataclass

WAITS = 0.5
"""A learner that waits for this share of its time wants more collectors."""
DROPS = 0.5
"""One that drops more than this share of the unrolls wants fewer: half of them bring enough."""
PAUSE_SECONDS = 6.0
"""From one change to the next: pods start, or end, and then it is measured what came of it."""


@dataclass(slots=True, kw_only=True)
class Window:
    """What was measured since `began` (seconds of a clock).

    Attributes:
        waited: seconds in which there were too few unrolls.
        used, dropped: unrolls learned from, and dropped.
        behind: versions that the used ones were behind the weights that learned from them.
    """

    began: float
    waited: float = 0.0
    used: int = 0
    dropped: int = 0
    behind: int = 0

    def waiting(self, now: float) -> float:
        """The share of its time that the learner waited."""
        return self.waited / (now - self.began) if now > self.began else 0.0

    @property
    def dropping(self) -> float:
        """The share of the unrolls that were dropped."""
        brought = self.used + self.dropped
        return self.dropped / brought if brought else 0.0

    @property
    def lag(self) -> float:
        """How many versions behind the unrolls were, in the mean."""
        return self.behind / self.used if self.used else 0.0


def wanted_change(*, collectors: int, waiting: float, dropping: float) -> int:
    """By how many collectors the job should grow, or shrink, from those that are present.

    It doubles or halves: from a few to hundreds in a minute, and never far beyond what is needed.
    """
    if dropping > DROPS:
        return -(collectors // 2)
    return collectors if waiting >= WAITS else 0
