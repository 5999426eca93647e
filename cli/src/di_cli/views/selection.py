"""Selection and order of the rows of a list of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from di_api.phase import Phase
from di_cli.views.jobs import Row, sort_key

T = TypeVar("T")
_PHASES: Final[Mapping[str, int]] = {phase.value: place for place, phase in enumerate(Phase)}


class Order(StrEnum):
    """Sort key of a list; of numbers the largest is first, of ages the youngest."""

    NAME = "name"
    PHASE = "phase"
    AGE = "age"
    DURATION = "duration"
    PROGRESS = "progress"
    RESTARTS = "restarts"
    GPUS = "gpus"
    OWNER = "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The rows to show.

    Attributes:
        phases: only these; empty: all.
        shortest: shortest duration in seconds; None: any.
        limit: most rows; None: all.
    """

    phases: Collection[str] = ()
    order: Order = Order.NAME
    shortest: float | None = None
    limit: int | None = None

    def includes(self, row: Row) -> bool:
        """Return whether a row is one of those to show."""
        if self.phases and row.phase not in self.phases:
            return False
        return self.shortest is None or (row.seconds or 0.0) >= self.shortest


def selected(rows: Iterable[tuple[Row, T]], wanted: Wanted) -> list[tuple[Row, T]]:
    """Return the rows to show in their order, each with what came with it."""
    kept = sorted(
        (each for each in rows if wanted.includes(each[0])), key=lambda each: sort_key(each[0])
    )
    kept.sort(key=lambda each: order_key(each[0], wanted.order))
    return kept[: wanted.limit]


def order_key(row: Row, order: Order) -> Any:
    """Return the sort key of a row; rows without the value are last."""
    return _KEYS[order](row)


def _largest_first(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


_KEYS: Final[Mapping[Order, Callable[[Row], Any]]] = {
    Order.NAME: sort_key,
    Order.PHASE: lambda row: _PHASES.get(row.phase, len(_PHASES)),
    Order.AGE: lambda row: _largest_first(row.created.timestamp() if row.created else None),
    Order.DURATION: lambda row: _largest_first(row.seconds),
    Order.PROGRESS: lambda row: _largest_first(row.progress),
    Order.RESTARTS: lambda row: _largest_first(row.restarts),
    Order.GPUS: lambda row: _largest_first(row.gpus),
    Order.OWNER: lambda row: (not row.owner, row.owner),
}
