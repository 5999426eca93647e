"""Texts for errors and durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_FINE_UP_TO: Final = 10
"""Number of units up to which the next smaller unit is shown too."""


def describe(error: Exception) -> str:
    """Return an error in one line, with class and text: `KeyError: 'name'`."""
    return f"{type(error).__name__}: {error}"


def reason_of(error: Exception) -> str:
    """Return the text of an error, its class if it has none (as a TimeoutError)."""
    return str(error) or type(error).__name__


def listed(names: Sequence[str], most: int) -> str:
    """Return so many names at most, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def span(seconds: float) -> str:
    """Return a duration in one or two units: `45s`, `3m12s`, `5h`, `12d`."""
    left = max(0, int(seconds))
    for index, (unit, size) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if not count:
            continue
        finer = _UNITS[index + 1] if index + 1 < len(_UNITS) else None
        more = rest // finer[1] if finer and count < _FINE_UP_TO else 0
        return f"{count}{unit}{more}{finer[0]}" if more and finer else f"{count}{unit}"
    return "0s"
