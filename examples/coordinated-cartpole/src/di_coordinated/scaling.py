"""When the coordinator wants how many collectors."""

from __future__ import annotations

from dataclasses import dataclass

FEW = 2
"""Collectors to begin and to end with."""
MANY = 4
"""Collectors while collecting holds up learning."""
WAITING = 0.5
"""Share of its time that the coordinator must have waited for episodes before it wants more."""
WARM_UP_UPDATES = 5
"""Updates to measure before that: the first ones wait for pods to start."""
NEARLY_SOLVED = 400.0
"""Mean return from which few collectors are enough for the last updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the decision looks at; `wanted` is its answer of the last time."""

    updates: int
    waiting: float
    mean_return: float
    wanted: int


def wanted_collectors(progress: Progress) -> int:
    """How many collectors there should be; only asks for more once."""
    if progress.mean_return >= NEARLY_SOLVED:
        return FEW
    slow = progress.updates >= WARM_UP_UPDATES and progress.waiting >= WAITING
    return MANY if slow else progress.wanted
