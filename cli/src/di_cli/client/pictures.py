"""Tables and pictures for notebooks, as HTML without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final, Protocol

_MOST: Final = 6
"""Number of curves in one picture."""
_WIDTH: Final = 320
_HEIGHT: Final = 120
_EDGE: Final = 6
_COUNTERS: Final = frozenset({"step", "totalSteps", "envSteps", "maxEnvSteps"})
"""Numbers that only count, which are the axis of the others."""


class Plotted(Protocol):
    """A curve to draw."""

    name: str
    times: list[datetime]
    steps: list[float | None]

    def __getitem__(self, index: slice, /) -> list[float]:
        """Return some values."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    head = "".join(f"<th>{escape(each.lower())}</th>" for each in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def lines(text: Iterable[str]) -> str:
    """Return lines of text as they are."""
    return f"<pre>{escape(chr(10).join(text))}</pre>"


def charts(curves: Iterable[Plotted]) -> str:
    """Return a picture of the first curves that have more than one value."""
    found = [each for each in curves if each.name not in _COUNTERS and len(each[:2]) > 1][:_MOST]
    if not found:
        return lines(["no curve has two values yet"])
    return "".join(_chart(each) for each in found)


def _chart(curve: Plotted) -> str:
    """Return an SVG figure: the values over steps, or over seconds if a step is missing."""
    values, steps = curve[:], [step for step in curve.steps if step is not None]
    is_by_step = len(steps) == len(values)
    places = (
        steps if is_by_step else [(each - curve.times[0]).total_seconds() for each in curve.times]
    )
    low, high = min(values), max(values)
    left, right = min(places), max(places)
    points = " ".join(
        f"{_scaled(x, left, right, _WIDTH):.1f},{_HEIGHT - _scaled(y, low, high, _HEIGHT):.1f}"
        for x, y in zip(places, values, strict=True)
    )
    axis = f"step {left:g} to {right:g}" if is_by_step else f"{right:.0f} s"
    label = f"{curve.name}: {values[-1]:.4g} (from {low:.4g} to {high:.4g}, {axis})"
    return (
        f'<figure style="display:inline-block;margin:4px"><svg width="{_WIDTH}" height="{_HEIGHT}"'
        f' role="img" aria-label="{escape(label)}"><polyline points="{points}" fill="none"'
        f' stroke="currentColor" stroke-width="1.5"/></svg>'
        f"<figcaption>{escape(label)}</figcaption></figure>"
    )


def _scaled(value: float, low: float, high: float, size: int) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return _EDGE + share * (size - 2 * _EDGE)
