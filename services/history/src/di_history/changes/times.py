"""Conversion of times between objects and records."""

from __future__ import annotations

from datetime import UTC, datetime

from di_api.timestamps import parse_time
from di_history.records import Millis


def millis(value: object) -> Millis | None:
    """Return a time of the API server in milliseconds; None if it is invalid."""
    found = parse_time(value)
    return None if found is None else of_datetime(found)


def of_datetime(value: datetime) -> Millis:
    """Return a time with its zone in milliseconds."""
    return round(value.timestamp() * 1000)


def as_text(value: Millis) -> str:
    """Return the time as RFC 3339, in UTC."""
    found = datetime.fromtimestamp(value / 1000, UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
