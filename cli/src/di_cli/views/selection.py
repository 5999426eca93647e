"""Selection and order of jobs in a list, and its rows.

Rows are made as jobs are read, because a row takes a twentieth of a job's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time
from di_cli.views.jobs import (
    Row,
    gpus_held,
    key_of,
    owner_of,
    progress_share,
    restarts_of,
    row,
    seconds_of,
)
from di_cli.views.queued import Places, in_queue, is_queued

T = TypeVar("T", bound=Mapping[str, Any])
Object = Mapping[str, Any]
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
    """The jobs to show.

    Attributes:
        phases: only these; empty: all.
        shortest: shortest duration in seconds; None: any.
        limit: most jobs; None: all.
    """

    phases: Collection[str] = ()
    order: Order = Order.NAME
    shortest: float | None = None
    limit: int | None = None

    def includes(self, job: Object, now: datetime) -> bool:
        """Return whether a job of any shape is one of those to show."""
        if self.phases and _phase(job) not in self.phases:
            return False
        return self.shortest is None or (seconds_of(job, now) or 0.0) >= self.shortest


def selected(jobs: Iterable[T], wanted: Wanted, now: datetime) -> list[T]:
    """Return the jobs to show, in their order."""
    kept = [each for each in jobs if wanted.includes(each, now)]
    return sorted(kept, key=lambda job: _place(job, wanted, now))[: wanted.limit]


def order_key(job: Object, order: Order, now: datetime) -> Any:
    """Return the sort key of a job of any shape; jobs without the value are last."""
    return _KEYS[order](job, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A job of a list.

    Attributes:
        key: by which the list is sorted.
        row: without its place in a queue.
        waiting: the job itself if it waits in a queue, of which its place is read later.
    """

    key: tuple[Any, ...]
    row: Row
    waiting: dict[str, Any] | None


def listed(job: dict[str, Any], wanted: Wanted, now: datetime) -> Listed | None:
    """Return a job as a list keeps it; None if it is not one of those to show."""
    if not wanted.includes(job, now):
        return None
    return Listed(
        key=_place(job, wanted, now),
        row=row(job, now),
        waiting=job if is_queued(job) else None,
    )


def rows(found: Iterable[Listed], limit: int | None, places: Places) -> list[Row]:
    """Return the rows in their order, the first `limit` of them; None: all."""
    ordered = sorted(found, key=lambda each: each.key)[:limit]
    return [
        each.row if each.waiting is None else replace(each.row, hint=in_queue(each.waiting, places))
        for each in ordered
    ]


def _place(job: Object, wanted: Wanted, now: datetime) -> tuple[Any, ...]:
    """Return the sort key of a list: jobs that are equal by its order are sorted by name."""
    return (order_key(job, wanted.order, now), key_of(job))


def _status(job: Object) -> Object:
    return mapping(job.get("status"))


def _phase(job: Object) -> str:
    return str(_status(job).get("phase") or "-")


def _created(job: Object) -> float | None:
    found = parse_time(mapping(job.get("metadata")).get("creationTimestamp"))
    return found.timestamp() if found else None


def _largest_first(value: float | None) -> tuple[bool, float]:
    return value is None, -(value or 0.0)


_KEYS: Final[Mapping[Order, Callable[[Object, datetime], Any]]] = {
    Order.NAME: lambda job, _: key_of(job),
    Order.PHASE: lambda job, _: _PHASES.get(_phase(job), len(_PHASES)),
    Order.AGE: lambda job, _: _largest_first(_created(job)),
    Order.DURATION: lambda job, now: _largest_first(seconds_of(job, now)),
    Order.PROGRESS: lambda job, _: _largest_first(
        progress_share(mapping(_status(job).get("progress")))
    ),
    Order.RESTARTS: lambda job, _: -restarts_of(job),
    Order.GPUS: lambda job, _: -gpus_held(job),
    Order.OWNER: lambda job, _: (not owner_of(job), owner_of(job)),
}
