"""Timestamps in a status that a user may have edited."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: object) -> datetime | None:
    """Return the time that a metav1.Time has, None if the text is not a valid one."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (
        ValueError,
        OverflowError,
    ):  # A zone can move the first and the last possible day out of range.
        return None
