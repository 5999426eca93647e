"""Amounts of resources as whole numbers: thousandths of the base unit, so that sums are exact.

One CPU is 1000, one GPU is 1000, one byte is 1000. `pods` is a resource like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from di_api.quantity import LONGEST, read_quantity

Resources: TypeAlias = Mapping[str, int]

UNIT: Final = 1000
PODS: Final = "pods"


def read_resources(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the amounts of a manifest's `requests`, `limits` or `allocatable`.

    Finer than a thousandth is rounded up, as the API server does; what is out of its range is
    taken for the nearest amount within. Raises ValueError for what is no quantity.
    """
    return {name: _read(value) for name, value in (quantities or {}).items() if value is not None}


def _read(value: Any) -> int:
    # Most of a cluster's amounts are the same few texts.
    if isinstance(value, str) and len(value) <= LONGEST:
        return _remembered(value)
    return _amount(value)


@lru_cache(maxsize=4096)
def _remembered(value: str) -> int:
    return _amount(value)


def _amount(value: Any) -> int:
    return int((read_quantity(value) * UNIT).to_integral_value(ROUND_CEILING))


def total(amounts: Iterable[Resources]) -> dict[str, int]:
    """Return the sum by resource."""
    result: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            result[name] = result.get(name, 0) + value
    return result


def largest(amounts: Iterable[Resources]) -> dict[str, int]:
    """Return the largest amount by resource."""
    result: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            result[name] = max(result.get(name, 0), value)
    return result


def scarcest(wanted: Mapping[str, float], free: Resources) -> str:
    """Return the resource that would run out first; by name among equals, so that the order of
    requests does not matter."""
    return max(sorted(wanted), key=lambda name: wanted[name] / max(free.get(name, 0), 1))


def in_units(value: int) -> str:
    """The amount in base units as a person writes it: 1500 is 1.5."""
    return f"{(Decimal(value) / UNIT).normalize():f}"
