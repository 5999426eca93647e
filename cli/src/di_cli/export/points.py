"""The numbers of a job's reports as single points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from di_cli.views.reports import Reports


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a number.

    Attributes:
        step: as reported; the seconds since the first report if none was.
    """

    name: str
    at: datetime
    step: int
    value: float


def points_of(reports: Reports) -> Iterator[Point]:
    """Yield the points of all numbers in the order of time.

    A report has the newest value of each number. So a value that is equal to the one before it, at
    the same step, is left out.
    """
    last: dict[str, tuple[int, float]] = {}
    for at, numbers in zip(reports.times, reports.numbers, strict=True):
        step = numbers.get("step")
        if step is None:
            step = (at - reports.times[0]).total_seconds()
        for name, value in numbers.items():
            if last.get(name) != (int(step), value):
                last[name] = int(step), value
                yield Point(name, at, int(step), value)
