"""Numbers made of many measurements."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import TypedDict


class Spread(TypedDict):
    """Milliseconds."""

    count: int
    p50: float
    p99: float
    max: float


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of the values do not pass (nearest rank).

    No interpolation: of a few dozen values the 99th percentile is the largest, and says so.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values, no percentile")
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)]


def spread(seconds: Sequence[float]) -> Spread:
    """Median, 99th percentile and maximum of durations, in milliseconds."""
    return {
        "count": len(seconds),
        "p50": round(1000 * percentile(seconds, 50), 1),
        "p99": round(1000 * percentile(seconds, 99), 1),
        "max": round(1000 * max(seconds), 1),
    }


def median(values: Sequence[float], digits: int = 2) -> float:
    """The median, rounded."""
    return round(statistics.median(values), digits)


def rates(moments: Sequence[float], start: float, parts: int) -> list[float]:
    """Events a second in each of `parts` equally numerous stretches of a run.

    `moments` are in order, `start` is when the run began. A rate that holds gives equal numbers.
    """
    size = len(moments) // parts
    if size == 0:
        return []
    edges = [start, *(moments[size * part - 1] for part in range(1, parts + 1))]
    return [round(size / max(end - begin, 1e-9), 1) for begin, end in itertools.pairwise(edges)]
