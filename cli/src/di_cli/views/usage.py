"""Tables of the GPU-hours that di-history adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from di_api.field_error import items, mapping

Object = Mapping[str, Any]
_PHASES: Final = ("running", "starting", "pending", "replacing", "ended", "notKnown")
_USES: Final = ("training", "waiting", "stale", "starting", "lost", "ended", "notKnown")
_HEADERS: Final = {"notKnown": "NOT KNOWN"}


class By(StrEnum):
    """The property that groups pods."""

    JOB = "job"
    NAMESPACE = "namespace"
    NODE = "node"
    TASK = "task"
    USER = "user"
    QUEUE = "queue"
    SWEEP = "sweep"


class Split(StrEnum):
    """How GPU-hours are divided into columns."""

    PHASES = "phases"
    USEFUL = "useful"


_KEYS: Final = {Split.PHASES: _PHASES, Split.USEFUL: _USES}


def records(answer: Object, by: By, splits: Sequence[Split]) -> list[dict[str, Any]]:
    """Return the groups of an answer as flat rows for programs, with times in hours."""
    return [flat(mapping(each), by, splits) for each in items(answer.get("usage"))]


def flat(found: Object, by: By | None, splits: Sequence[Split]) -> dict[str, Any]:
    """Return one group as a flat row; without `by` it has no name, as the total."""
    name = {} if by is None else {by.value: found.get(by.value) or None}
    month = {"month": found["month"]} if "month" in found else {}
    row = {key: found.get(key) for key in ("jobs", "pods", "podHours", "gpuHours")}
    for split in splits:
        divided = mapping(found.get(split.value))
        row |= {_column(split, key, splits): divided.get(key, 0.0) for key in _KEYS[split]}
    if Split.USEFUL in splits:
        row["usefulShare"] = found.get("usefulShare")
    row |= {key: found[key] for key in ("cost", "unpricedGpuHours") if key in found}
    return {**month, **name, **row}


def header(row: Object) -> tuple[str, ...]:
    """Return the header of the table by the keys of a flat row."""
    names = {
        "podHours": "POD-HOURS",
        "gpuHours": "GPU-HOURS",
        "usefulShare": "USEFUL",
        "unpricedGpuHours": "UNPRICED",
    }
    return tuple(names.get(key) or _HEADERS.get(key) or key.upper() for key in row)


def cells(row: Object, by: By) -> tuple[str, ...]:
    """Return a flat row as a row of the table."""
    return tuple(_cell(key, value, by) for key, value in row.items())


def _column(split: Split, key: str, splits: Sequence[Split]) -> str:
    """Return the name of a column; both divisions have some names in common."""
    is_both = len(splits) > 1 and key in _PHASES and key in _USES
    return f"{split.value}.{key}" if is_both else key


def _cell(key: str, value: object, by: By) -> str:
    if key == by:
        return str(value or "not known" if by is By.USER else value or "none")
    if key == "usefulShare":
        return "" if value is None else f"{value:.0%}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
