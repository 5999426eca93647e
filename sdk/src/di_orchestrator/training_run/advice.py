"""Computation of the number of collectors that keeps a learner busy without stale samples. Pure
functions.

It needs both the waiting time and the staleness. With too few collectors the learner waits. With
too many it never waits, but discards samples that it cannot use in time.
"""

from __future__ import annotations

import math

WAITS = 0.2
"""Share of waiting time below which no more collectors are advised."""
NOTHING_STALE = 0.02
"""Share of stale samples above which more collectors would only add discarded ones."""
GROWTH = 2
"""Maximum factor of one change, because the contribution of a collector changes with their
number.
"""


def wanted_collectors(
    collectors: int,
    *,
    waiting: float,
    stale: float = 0.0,
    least: int = 1,
    most: int | None = None,
) -> int | None:
    """Return the advised number of collectors; None: no change.

    A learner that waits for the share w of its time could use 1 / (1 - w) times as many samples. Of
    n collectors with a share s of stale samples, n (1 - s) are useful; one is removed only if a
    whole one is wasted.

    Args:
        collectors: present number.
        waiting: share of the learner's time without samples to train on, 0 to 1.
        stale: share of discarded samples, 0 to 1.
        least, most: bounds of the result.

    Raises:
        ValueError: a number is out of its bounds.
    """
    if collectors < 0 or not 0 <= waiting <= 1 or not 0 <= stale <= 1:
        raise ValueError(
            f"collectors {collectors}, waiting {waiting}, stale {stale}: a count, and shares of 1"
        )
    wanted = max(collectors, 1)
    if stale * collectors > 1:
        wanted = math.ceil(collectors * (1 - stale))
    elif waiting >= WAITS and stale <= NOTHING_STALE:
        grown = GROWTH * wanted
        wanted = grown if waiting >= 1 else min(math.ceil(wanted / (1 - waiting)), grown)
    bounded = max(min(wanted, most if most is not None else wanted), least)
    return None if bounded == collectors else bounded
