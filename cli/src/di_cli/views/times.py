"""Times for people: ages, and local clock times."""

from __future__ import annotations

from datetime import datetime

from di_api.timestamps import parse_time
from di_api.wording import span


def age(value: object, now: datetime) -> str:
    """Return the age of an API server's time; empty if it is invalid."""
    found = parse_time(value)
    return span((now - found).total_seconds()) if found else ""


def local(value: datetime | None) -> str:
    """Return the local time with the day."""
    return _here(value, "%Y-%m-%d %H:%M:%S")


def clock(value: datetime | None) -> str:
    """Return the local time of day."""
    return _here(value, "%H:%M:%S")


def _here(value: datetime | None, form: str) -> str:
    if value is None:
        return ""
    try:
        return value.astimezone().strftime(form)
    except OverflowError:
        # A year that was written by hand.
        return value.strftime(form)
