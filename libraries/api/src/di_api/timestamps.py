"""Times in the format of the API server (RFC 3339)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from di_api.field_error import mapping


def format_time(moment: datetime) -> str:
    """Return an aware datetime as metav1.Time: in UTC, cut to whole seconds."""
    # Not strftime: it writes the year 1, the zero time of Go's clients, without leading zeros.
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def parse_time(value: object) -> datetime | None:
    """Return a time with its zone; None for an invalid one."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def last_seen(event: Mapping[str, Any]) -> datetime | None:
    """Return when an Event happened last, from whichever of its fields its writer uses."""
    series = mapping(event.get("series"))
    times = (
        series.get("lastObservedTime"),
        *(event.get(key) for key in ("lastTimestamp", "eventTime", "firstTimestamp")),
    )
    return next((found for each in times if (found := parse_time(each)) is not None), None)
