"""Time series of a job's reports: numbers by name, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Final

MOST_POINTS: Final = 480
"""Maximum number of points of a job; above it every second one is dropped, so that the rest stays
evenly spread.
"""
MOST_NAMES: Final = 24


@dataclass(slots=True)
class Series:
    """Points in order of time; a missing value is NaN.

    Attributes:
        times: seconds since the epoch.
        values: by name, as many as times.
    """

    times: array[float] = field(default_factory=lambda: array("d"))
    values: dict[str, array[float]] = field(default_factory=dict)

    def add(self, at: float, numbers: Mapping[str, float]) -> None:
        """Add a point; it replaces the last one unless it is later."""
        if self.times and at <= self.times[-1]:
            for name, value in numbers.items():
                self._column(name)[-1:] = array("d", [value])
            return
        self.times.append(at)
        for column in self.values.values():
            column.append(nan)
        for name, value in numbers.items():
            column = self._column(name)
            if column:
                column[-1] = value
        if len(self.times) > MOST_POINTS:
            self.times = self.times[::2]
            self.values = {name: column[::2] for name, column in self.values.items()}

    def points(self, name: str) -> list[tuple[float, float]]:
        """Return times and values of the points that have this value."""
        column = self.values.get(name, ())
        pairs = zip(self.times, column, strict=False)
        return [(at, value) for at, value in pairs if not isnan(value)]

    def all_points(self) -> dict[str, list[tuple[float, float]]]:
        """Return the points by name."""
        return {name: self.points(name) for name in self.values}

    def _column(self, name: str) -> array[float]:
        found = self.values.get(name)
        if found is None:
            if len(self.values) >= MOST_NAMES:
                return array("d")
            found = self.values[name] = array("d", [nan] * len(self.times))
        return found


def numbers_of(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a report, with any names."""
    return {
        name: float(value)
        for name, value in sorted(report.items())
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
    }


_LARGEST: Final = 1e300
