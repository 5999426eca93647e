"""The numbers that a job has reported, as curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import overload

from typing_extensions import override

from di_api.profilings import RETURN, find_metric
from di_cli.client.pictures import charts
from di_cli.views.reports import Reports, reported_name


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
        found = reported_name(self._curves, name)
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


def curves_of(reports: Reports) -> Curves:
    """Return the curves of all numbers of a job's reports."""
    return Curves(_curve(reports, name) for name in reports.names())


def _curve(reports: Reports, name: str) -> Curve:
    found = reports.of(name)
    return Curve(
        name,
        [value for _, _, value in found],
        [at for at, _, _ in found],
        [step for _, step, _ in found],
    )
