"""Tables and pictures for notebooks, as HTML without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


_WIDE: Final = 640
_HIGH: Final = 280
_COLOURS: Final = ("#3b5bdb", "#d9480f", "#2b8a3e", "#9c36b5", "#0b7285", "#868e96")
_DASHES: Final = ("", "6 3", "2 3", "10 3 2 3")
"""One after another when the colors are used up."""


@dataclass(frozen=True, slots=True)
class Line:
    """Curves of one entry in the legend.

    Attributes:
        curves: places and values, such as those of several seeds.
    """

    name: str
    curves: Sequence[Sequence[tuple[float, float]]]


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


def overlay(title: str, axis: str, found: Iterable[Line]) -> str:
    """Return one picture of all lines, with a legend; empty if no curve has two values."""
    drawn = [each for each in found if any(len(curve) > 1 for curve in each.curves)]
    points = [point for each in drawn for curve in each.curves for point in curve]
    if not drawn:
        return ""
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    parts, legend = [], []
    for number, each in enumerate(drawn):
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        style = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"'
        for curve in each.curves:
            places = " ".join(
                f"{_scaled(x, left, right, _WIDE):.1f},{_HIGH - _scaled(y, low, high, _HIGH):.1f}"
                for x, y in curve
            )
            parts.append(f'<polyline points="{places}" {style}/>')
        legend.append(
            f'<span style="margin-right:16px"><svg width="26" height="8" aria-hidden="true">'
            f'<line x1="0" x2="26" y1="4" y2="4" {style}/></svg> {escape(each.name)}</span>'
        )
    label = f"{title}: from {low:.4g} to {high:.4g}, {axis} {left:g} to {right:g}"
    frame = (
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="none" stroke="currentColor" opacity=".2"/>'
    )
    return (
        f'<figure style="margin:4px"><figcaption>{escape(label)}</figcaption>'
        f'<svg width="{_WIDE}" height="{_HIGH}" role="img" aria-label="{escape(label)}">'
        f"{frame}{''.join(parts)}</svg><div>{''.join(legend)}</div></figure>"
    )


def _scaled(value: float, low: float, high: float, size: int) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return _EDGE + share * (size - 2 * _EDGE)
