"""Rows of the GPU-hours that di-history adds up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.timestamps import format_time

Object = Mapping[str, Any]
GROUPS: Final = ("job", "user", "queue", "sweep", "task", "node")
DAYS: Final = (1, 7, 30, 90)
MOST_ROWS: Final = 200
PARTS: Final = (
    ("training", "training"),
    ("waiting", "waiting"),
    ("stale", "stale samples"),
    ("starting", "starting"),
    ("lost", "lost to failures"),
    ("ended", "ended"),
    ("notKnown", "not known"),
)
"""Uses of GPU-hours: the key in di-history's answer, and the name on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One group, or the total.

    Attributes:
        name: empty for the total.
        share: of the training in the GPU-hours, such as `60%`; empty without GPU-hours.
        parts: name and percentage of each use that has any.
        cost: empty without prices.
    """

    name: str
    jobs: int
    gpu_hours: str
    share: str
    parts: tuple[tuple[str, float], ...]
    cost: str


def since_of(now: datetime, days: int) -> str:
    """Return the beginning of so many days until now; the same until midnight, for the cache."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return format_time(day - timedelta(days=days - 1))


def usage_rows(answer: Object, by: str) -> list[UsageRow]:
    """Return the groups of an answer, at most MOST_ROWS, and the total of several."""
    found = [mapping(each) for each in items(answer.get("usage"))]
    rows = [_row(each, str(each.get(by) or _unnamed(by))) for each in found[:MOST_ROWS]]
    return [*rows, _row(mapping(answer.get("total")), "")] if found[1:] else rows


def _unnamed(by: str) -> str:
    return "not known" if by == "user" else "none"


def _row(found: Object, name: str) -> UsageRow:
    total = _number(found.get("gpuHours"))
    useful = mapping(found.get("useful"))
    share, cost = found.get("usefulShare"), found.get("cost")
    return UsageRow(
        name=name,
        jobs=int(_number(found.get("jobs"))),
        gpu_hours=f"{total:,.1f}",
        share="" if share is None else f"{_number(share):.0%}",
        parts=tuple(
            (text, round(100 * hours / total, 2))
            for key, text in PARTS
            if total and (hours := _number(useful.get(key)))
        ),
        cost="" if cost is None else f"{_number(cost):,.2f}",
    )


def _number(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else 0.0  # type: ignore[arg-type]  # it is a number
