"""When the learner asks for collectors, and when it gives them back."""

from __future__ import annotations

from dataclasses import dataclass

EXTRA = 2
"""How many collectors the learner asks for."""
WAITING = 0.5
"""Share of its time that the learner must have waited for trials before it asks."""
WARM_UP_GENERATIONS = 5
"""Generations to measure before the first request: the first ones wait for pods to start."""
NEARLY_SOLVED = 400.0
"""Mean return from which the last moves need few trials: the extra collectors go back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the decision looks at."""

    generation: int
    wait_fraction: float
    mean_return: float
    extra: int


def wanted_change(progress: Progress) -> int:
    """How many collectors to ask for (positive), give back (negative), or neither (0)."""
    if progress.extra:
        return -progress.extra if progress.mean_return >= NEARLY_SOLVED else 0
    if progress.generation < WARM_UP_GENERATIONS or progress.mean_return >= NEARLY_SOLVED:
        return 0
    return EXTRA if progress.wait_fraction >= WAITING else 0
