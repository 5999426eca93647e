"""The numbers that a job has reported, as curves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, overload

from typing_extensions import override

from di_api.field_error import items, mapping
from di_api.profilings import RETURN, find_metric, numbers_of
from di_api.timestamps import parse_time
from di_cli.client.pictures import charts

_RETURN: Final = "return"
"""Short name of the return of an episode, however the program names it."""


class Curve(Sequence[float]):
    """The values of one number, the oldest first.

    Attributes:
        name: as it was reported.
        times: when each value arrived.
        steps: the step of each value; None where none was reported.
    """

    def __init__(
        self, name: str, values: list[float], times: list[datetime], steps: list[float | None]
    ) -> None:
        self.name, self.times, self.steps = name, times, steps
        self._values = values

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> list[float]: ...
    @override
    def __getitem__(self, index: int | slice) -> float | list[float]:
        return self._values[index]

    @override
    def __len__(self) -> int:
        return len(self._values)

    @override
    def __repr__(self) -> str:
        last = f", the last {self._values[-1]:g}" if self._values else ""
        return f"<{self.name}: {len(self)} values{last}>"

    def _repr_html_(self) -> str:
        return charts([self])


class Curves(Mapping[str, Curve]):
    """Curves by name, in any spelling; `return` is the return of an episode."""

    def __init__(self, curves: Iterable[Curve]) -> None:
        self._curves = {each.name: each for each in curves}

    @override
    def __getitem__(self, name: str) -> Curve:
        found = find_metric(self._curves, name)
        if found is None and name.casefold() == _RETURN:
            found = find_metric(self._curves, RETURN)
        if found is None:
            known = ", ".join(self._curves) or "nothing"
            raise KeyError(f"{name}: is not reported; the job has reported {known}")
        return self._curves[found]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    @override
    def __len__(self) -> int:
        return len(self._curves)

    @override
    def __repr__(self) -> str:
        return f"<curves: {', '.join(self._curves) or 'none'}>"

    def _repr_html_(self) -> str:
        first = find_metric(self._curves, RETURN)
        return charts(sorted(self._curves.values(), key=lambda each: each.name != first))


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
            self._add(at, found)

    def read(self, series: Mapping[str, Any]) -> None:
        """Add the samples of di-history."""
        for each in map(mapping, items(series.get("samples"))):
            at = parse_time(each.get("at"))
            values = mapping(each.get("values"))
            numbers = {str(k): float(v) for k, v in values.items() if isinstance(v, int | float)}
            if at is not None and numbers:
                self._add(at, numbers)

    def curves(self) -> Curves:
        """Return the curves of all numbers."""
        names = dict.fromkeys(name for each in self.numbers for name in each)
        return Curves(self._curve(name) for name in names)

    def _curve(self, name: str) -> Curve:
        places = [place for place, each in enumerate(self.numbers) if name in each]
        return Curve(
            name,
            [self.numbers[place][name] for place in places],
            [self.times[place] for place in places],
            [self.numbers[place].get("step") for place in places],
        )

    def _add(self, at: datetime, numbers: Mapping[str, float]) -> None:
        place = bisect_left(self.times, at)
        if place < len(self.times) and self.times[place] == at:
            self.numbers[place] = numbers
        else:
            self.times.insert(place, at)
            self.numbers.insert(place, numbers)
