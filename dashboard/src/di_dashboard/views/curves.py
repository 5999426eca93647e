"""Selection and names of the curves from a job's reports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from di_api.profilings import RETURN, find_metric, spelled

Point = tuple[float, float]
Points = Mapping[str, Sequence[Point]]
"""Seconds since the epoch and values, by name, in order of time."""

_WAITS: Final = ("learnerWaitFrac", "collectorWaitFrac")
_CHARTS: Final = (
    ("Return", (RETURN,), ""),
    ("Steps per second", ("envStepsPerSec", "trainStepsPerSec"), ""),
    ("Waiting", _WAITS, "%"),
    ("Stale samples", ("staleFrac",), "%"),
    ("Idle GPUs", ("gpuIdleFrac",), "%"),
)
READY: Final = "ready "
"""Prefix of the number of running pods of a task, among the names of numbers."""
_LABELS: Final = {
    RETURN: "return",
    "envStepsPerSec": "environment",
    "trainStepsPerSec": "training",
    "learnerWaitFrac": "learner",
    "collectorWaitFrac": "collectors",
    "staleFrac": "stale",
    "gpuIdleFrac": "idle",
}
_NO_CURVES: Final = frozenset(
    {
        *("step", "totalSteps", "envSteps", "maxEnvSteps", "collectors", "learners", "batchSize"),
        *("initBatchSize", "maxBatchSize", "localBatchMin", "localBatchMax", "samplesPerEnvStep"),
        *("restoreSeconds", "checkpointStep", "staleDropped"),
    }
)
"""Known keys that are not measurements of progress."""
_SHOWN_OTHERS: Final = 4
"""Number of the job's own numbers that are drawn before the reader chooses."""
_FIRST: Final = ("loss", "learningrate", "entropy", "kl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve: seconds since the epoch, and values."""

    label: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves with one unit.

    Attributes:
        unit: "%" if values are fractions of 1.
        stepped: whether a value is valid until the next.
        is_shown: whether it is drawn before the reader chooses.
    """

    title: str
    unit: str
    lines: list[Line]
    stepped: bool = False
    is_shown: bool = True

    @property
    def last(self) -> str:
        """Return the last values of the curves as text."""
        parts = []
        for line in self.lines:
            value = line.points[-1][1]
            shown = f"{value * 100:.0f} %" if self.unit == "%" else f"{value:,.4g}"
            parts.append(f"{line.label} {shown}" if len(self.lines) > 1 else shown)
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Return the chart as JSON for the script that draws it."""
        return {
            "title": self.title,
            "unit": self.unit,
            "stepped": self.stepped,
            "shown": self.is_shown,
            "lines": [{"label": line.label, "points": line.points} for line in self.lines],
        }


def together(kept: Points, seen: Points) -> Points:
    """Return the points of the history, and later ones of this process, by name."""
    found: dict[str, Sequence[Point]] = dict(kept)
    for name, points in seen.items():
        before = found.get(name, ())
        last = before[-1][0] if before else 0.0
        # Both have the time of a report's arrival, except for fractions of a second.
        found[name] = [*before, *(each for each in points if each[0] > last + 1.0)]
    return found


def charts(points: Points, *, has_samplers: bool = True) -> list[Chart]:
    """Return the charts with data, the most important first; a reader chooses among them.

    Args:
        has_samplers: whether the learner can wait for pods of another task.
    """
    if not has_samplers:
        points = {name: each for name, each in points.items() if name not in _WAITS}
    named = {name: find_metric(points, name) for _, names, _ in _CHARTS for name in names}
    found = [_chart(points, title, names, unit, named=named) for title, names, unit in _CHARTS]
    ready = tuple(name for name in points if name.startswith(READY))
    found.append(_chart(points, "Pods that run", ready, "", stepped=True))
    known = {*named.values(), *_NO_CURVES, *ready}
    others = sorted((name for name in points if name not in known), key=_importance)
    found += [
        _chart(points, name, (name,), "", is_shown=place < _SHOWN_OTHERS)
        for place, name in enumerate(others)
    ]
    # One point is no curve.
    return [each for each in found if any(len(line.points) > 1 for line in each.lines)]


def measurements(names: Iterable[str]) -> list[str]:
    """Return the names of reported numbers that measure progress, the most important first."""
    known = {name for name in names if name not in _NO_CURVES and not name.startswith(READY)}
    gain = find_metric(known, RETURN)
    return sorted(known, key=lambda name: (name != gain, _importance(name)))


def steps(points: Points) -> Sequence[Point]:
    """Return the steps that the job reported, to draw the other numbers by."""
    return points.get("step", ())


def as_csv(points: Points) -> str:
    """Return the points as CSV: a row for each time, a column for each name, times in UTC."""
    names = sorted(points)
    rows: dict[float, dict[str, float]] = {}
    for name in names:
        for at, value in points[name]:
            rows.setdefault(at, {})[name] = value
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", *map(_cell, names)])
    for at in sorted(rows):
        time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
        writer.writerow([time, *(rows[at].get(name, "") for name in names)])
    return text.getvalue()


def _cell(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t") else name


def _importance(name: str) -> tuple[int, str]:
    """Return a sort key: first the losses and the rate of learning, which every program has."""
    words = {"lr": "learningrate"}.get(spelled(name), spelled(name))
    places = (place for place, word in enumerate(_FIRST) if word in words)
    return min(places, default=len(_FIRST)), name


def _chart(
    points: Points,
    title: str,
    names: tuple[str, ...],
    unit: str,
    *,
    stepped: bool = False,
    is_shown: bool = True,
    named: Mapping[str, str | None] = MappingProxyType({}),
) -> Chart:
    lines = [
        Line(label=_LABELS.get(name, name.removeprefix(READY)), points=found)
        for name in names
        if (found := points.get(named.get(name) or name, ()))
    ]
    return Chart(title=title, unit=unit, lines=lines, stepped=stepped, is_shown=is_shown)
