"""How many collectors keep a learner busy without feeding it what is stale. Pure.

Neither waiting nor staleness says it alone. Too few collectors: the learner waits. Too many: it
never waits, and throws away what it cannot use in time.
"""

from __future__ import annotations

import math

WAITS = 0.2
"""A learner that waits for less than this share of its time is left alone."""
NOTHING_STALE = 0.02
"""More than this share of stale samples, and further collectors would bring what is thrown away."""
GROWTH = 2
"""So many times as many at once: how much each brings changes with their number."""


def wanted_collectors(
    collectors: int,
    *,
    waiting: float,
    stale: float = 0.0,
    least: int = 1,
    most: int | None = None,
) -> int | None:
    """How many there should be; None: as many as there are.

    A learner that waits for the share w of its time would use 1 / (1 - w) times as many samples.
    Of n collectors whose samples are stale to the share s, n (1 - s) bring what is used; one has
    to go only if a whole one is thrown away.

    Args:
        collectors: that there are now.
        waiting: share of the learner's time in which it had nothing to train on, 0 to 1.
        stale: share of the samples that were thrown away, 0 to 1.
        least, most: bounds of the answer.

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
