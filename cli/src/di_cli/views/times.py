"""Times as people read them: how long ago, and by the clock on their wall."""

from __future__ import annotations

from datetime import datetime

from di_api.timestamps import parse_time
from di_api.wording import span


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
