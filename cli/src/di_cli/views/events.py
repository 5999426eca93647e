"""Events as rows of a table, the newest last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from di_api.field_error import mapping
from di_api.timestamps import last_seen
from di_api.wording import span

HEADER: Final = ("AGE", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE")
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LONGEST: Final = 200

Object = Mapping[str, Any]


def rows(events: Iterable[Object], now: datetime) -> list[tuple[str, ...]]:
    """Return a row for each event, by when it was last seen."""
    found = [(last_seen(event) or _FIRST, event) for event in events]
    found.sort(key=lambda each: each[0])
    return [_row(event, seen, now) for seen, event in found]


def _row(event: Object, seen: datetime, now: datetime) -> tuple[str, ...]:
    about = mapping(event.get("involvedObject"))
    message = " ".join(str(event.get("message") or "").split())
    count = mapping(event.get("series")).get("count") or event.get("count") or 1
    return (
        span((now - seen).total_seconds()) if seen is not _FIRST else "",
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}",
        str(count),
        message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}...",
    )
