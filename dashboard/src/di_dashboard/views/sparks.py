"""Sparklines: small curves in a table row, without axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Point = tuple[float, float]

WIDTH: Final = 64
HEIGHT: Final = 18
_MOST: Final = 48
_EDGE: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A sparkline.

    Attributes:
        points: of a polyline in a box of WIDTH by HEIGHT; empty for fewer than two.
        last: the last value; None: there is none.
        words: first and last value, as alternative text.
    """

    points: str = ""
    last: float | None = None
    words: str = ""


def spark(points: Sequence[Point], *, low: float | None = None, high: float | None = None) -> Spark:
    """Return a sparkline between the given bounds, or those of the values."""
    if not points:
        return Spark()
    # The last point is always included: it is the number beside the curve.
    step = -(-len(points) // _MOST)
    kept = points[::-1][::step][::-1]
    values = [value for _, value in kept]
    bottom = min(values) if low is None else low
    room = ((max(values) if high is None else high) - bottom) or 1.0
    start, seconds = kept[0][0], (kept[-1][0] - kept[0][0]) or 1.0
    last = values[-1]
    words = f"from {values[0]:,.4g} to {last:,.4g}"
    if len(kept) < 2:
        return Spark(last=last)
    drawn = []
    for at, value in kept:
        x = (at - start) / seconds * WIDTH
        share = min(1.0, max(0.0, (value - bottom) / room))
        y = HEIGHT - _EDGE - share * (HEIGHT - 2 * _EDGE)
        drawn.append(f"{x:.1f},{y:.1f}")
    return Spark(points=" ".join(drawn), last=last, words=words)
