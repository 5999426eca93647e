"""Times as people read them: how long ago, and by the clock on their wall."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_api.timestamps import parse_time

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_FINE_UP_TO: Final = 10
"""Of so many of a unit the next smaller one is shown as well."""


def span(seconds: float) -> str:
    """A length of time in one or two units: `45s`, `3m12s`, `5h`, `12d`."""
    left = max(0, int(seconds))
    for index, (unit, size) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if not count:
            continue
        finer = _UNITS[index + 1] if index + 1 < len(_UNITS) else None
        more = rest // finer[1] if finer and count < _FINE_UP_TO else 0
        return f"{count}{unit}{more}{finer[0]}" if more and finer else f"{count}{unit}"
    return "0s"


def age(value: object, now: datetime) -> str:
    """How long ago a time of the API server is; empty if it is none."""
    found = parse_time(value)
    return span((now - found).total_seconds()) if found else ""


def local(value: datetime | None) -> str:
    """By the clock of this machine, with the day."""
    return _here(value, "%Y-%m-%d %H:%M:%S")


def clock(value: datetime | None) -> str:
    """The time of day by the clock of this machine."""
    return _here(value, "%H:%M:%S")


def _here(value: datetime | None, form: str) -> str:
    if value is None:
        return ""
    try:
        return value.astimezone().strftime(form)
    except OverflowError:
        # Of a year that only somebody's hand can have written.
        return value.strftime(form)
