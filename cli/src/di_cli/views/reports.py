"""The reports of a job over time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.profilings import RETURN, find_metric, numbers_of
from di_api.timestamps import parse_time

_ENV_STEPS: Final = "envSteps"
_NUMBER: Final = (int, float)
"""Made once: `int | float` in the loop over all numbers takes twice as long."""
_RETURN: Final = "return"
"""Short name of the return of an episode, however the program names it."""


@dataclass(slots=True)
class Reports:
    """The reports of a job in order of time."""

    times: list[datetime] = field(default_factory=list)
    numbers: list[Mapping[str, float]] = field(default_factory=list)

    def see(self, job: Mapping[str, Any]) -> None:
        """Add the last report of a job, unless it is known."""
        status = mapping(job.get("status"))
        at = parse_time(mapping(status.get("progress")).get("reportedAt"))
        if at is not None and (found := numbers_of(status)):
            self.add(at, found)

    def read(self, series: Mapping[str, Any]) -> None:
        """Add the samples of di-history."""
        for each in map(mapping, items(series.get("samples"))):
            at = parse_time(each.get("at"))
            values = mapping(each.get("values"))
            numbers = {str(k): float(v) for k, v in values.items() if isinstance(v, _NUMBER)}
            if at is not None and numbers:
                self.add(at, numbers)

    def names(self) -> list[str]:
        """Return the names of all numbers, in the order of their first report."""
        found: dict[str, None] = {}
        before: Set[str] = frozenset()
        for each in self.numbers:
            # Most reports have the names of the one before.
            if each.keys() != before:
                before = each.keys()
                found.update(dict.fromkeys(each))
        return [*found]

    def of(self, name: str) -> list[tuple[datetime, float | None, float]]:
        """Return time, step and value of each report with a number; the step is None where none
        was reported.
        """
        return [
            (at, each.get("step"), each[name])
            for at, each in zip(self.times, self.numbers, strict=True)
            if name in each
        ]

    def env_steps(self, name: str) -> list[float | None]:
        """Return the environment steps of each report with a number; None where none were
        reported.
        """
        return [each.get(_ENV_STEPS) for each in self.numbers if name in each]

    def add(self, at: datetime, numbers: Mapping[str, float]) -> None:
        """Add a report; it replaces one of the same time."""
        if not self.times or at > self.times[-1]:
            self.times.append(at)
            self.numbers.append(numbers)
            return
        place = bisect_left(self.times, at)
        if place < len(self.times) and self.times[place] == at:
            self.numbers[place] = numbers
        else:
            self.times.insert(place, at)
            self.numbers.insert(place, numbers)


def reported_name(names: Iterable[str], wanted: str) -> str | None:
    """Return the name of a number among the reported ones, in any spelling; `return` is the return
    of an episode. None: it is not reported.
    """
    known = [*names]
    found = find_metric(known, wanted)
    if found is None and wanted.casefold() == _RETURN:
        found = find_metric(known, RETURN)
    return found
