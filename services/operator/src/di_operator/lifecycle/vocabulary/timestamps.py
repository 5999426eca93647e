"""Times of a status that may have been edited by hand."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: object) -> datetime | None:
    """Read a metav1.Time; None for anything that is not one (a status can be edited by hand)."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):  # the first and the last day there is, in another zone
        return None
