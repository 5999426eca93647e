"""Which curves are shown of what a job reports, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from di_dashboard.series import Series

_CHARTS: Final = (
    ("Return", ("episodeReturn",), ""),
    ("Steps per second", ("envStepsPerSec", "trainStepsPerSec"), ""),
    ("Waiting", ("learnerWaitFrac", "collectorWaitFrac"), "%"),
    ("Stale samples", ("staleFrac",), "%"),
)
_READY: Final = "ready "
_LABELS: Final = {
    "episodeReturn": "return",
    "envStepsPerSec": "environment",
    "trainStepsPerSec": "training",
    "learnerWaitFrac": "learner",
    "collectorWaitFrac": "collectors",
    "staleFrac": "stale",
}
_NO_CURVES: Final = frozenset(
    {
        *("step", "totalSteps", "envSteps", "maxEnvSteps", "collectors", "learners", "batchSize"),
        *("initBatchSize", "maxBatchSize", "localBatchMin", "localBatchMax", "samplesPerEnvStep"),
        *("restoreSeconds", "checkpointStep", "staleDropped"),
    }
)
"""Of what is known these are no measurements of how it goes."""
_MOST_OTHERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve: seconds since the epoch, and values."""

    label: str
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves of one unit.

    Attributes:
        unit: "%" where values are shares of 1.
        stepped: whether a value holds until the next.
    """

    title: str
    unit: str
    lines: list[Line]
    stepped: bool = False

    @property
    def last(self) -> str:
        """What the curves say at last, in words."""
        parts = []
        for line in self.lines:
            value = line.points[-1][1]
            shown = f"{value * 100:.0f} %" if self.unit == "%" else f"{value:,.4g}"
            parts.append(f"{line.label} {shown}" if len(self.lines) > 1 else shown)
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """For who draws it."""
        return {
            "title": self.title,
            "unit": self.unit,
            "stepped": self.stepped,
            "lines": [{"label": line.label, "points": line.points} for line in self.lines],
        }


def charts(series: Series) -> list[Chart]:
    """Those of which there is something to see, the ones that people look at first, first."""
    found = [_chart(series, title, names, unit) for title, names, unit in _CHARTS]
    ready = tuple(name for name in series.values if name.startswith(_READY))
    found.append(_chart(series, "Pods that run", ready, "", stepped=True))
    known = {name for _, names, _ in _CHARTS for name in names}
    others = [
        name
        for name in series.values
        if name not in known and name not in _NO_CURVES and not name.startswith(_READY)
    ]
    found += [_chart(series, name, (name,), "") for name in others[:_MOST_OTHERS]]
    # One point is no curve.
    return [each for each in found if any(len(line.points) > 1 for line in each.lines)]


def _chart(
    series: Series, title: str, names: tuple[str, ...], unit: str, *, stepped: bool = False
) -> Chart:
    lines = [
        Line(label=_LABELS.get(name, name.removeprefix(_READY)), points=points)
        for name in names
        if (points := series.points(name))
    ]
    return Chart(title=title, unit=unit, lines=lines, stepped=stepped)
