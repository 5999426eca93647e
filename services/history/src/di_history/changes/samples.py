"""Samples: the numbers in a job's reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from di_api.field_error import mapping
from di_history.changes.times import millis
from di_history.records import Sample

MOST_NUMBERS: Final = 48
_DEEPEST: Final = 3
_LONGEST_NAME: Final = 120
_LARGEST: Final = 1e300


def sample_of(job: str, status: Mapping[str, Any]) -> Sample | None:
    """Return all numbers of `status.profilings`, named by their paths, with the time of the report.

    Of more than MOST_NUMBERS the first by name are kept. None: no report, or one without numbers.
    """
    progress = mapping(status.get("progress"))
    at = millis(progress.get("reportedAt"))
    numbers = dict(sorted(_numbers("", mapping(status.get("profilings")), 0))[:MOST_NUMBERS])
    for name in ("step", "totalSteps"):
        value = progress.get(name)
        if _is_number(value):
            numbers[name] = float(value)
    return Sample(job=job, at=at, values=numbers) if at is not None and numbers else None


def _numbers(path: str, value: Any, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        if depth < _DEEPEST:
            for key, inner in value.items():
                yield from _numbers(f"{path}.{key}" if path else str(key), inner, depth + 1)
    elif _is_number(value) and len(path) <= _LONGEST_NAME:
        yield path, float(value)


def _is_number(value: object) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Integers beyond the range of a float are not real values.
    return abs(value) < _LARGEST and math.isfinite(value)
