"""The annotation that says which request asked for a change of a job: its span."""

from __future__ import annotations

from datetime import UTC, datetime

from di_api.names import ANNOTATION_TRACE


def noted(traceparent: str, now: datetime) -> str:
    """What the annotation says: the span, and when it was."""
    return f"{traceparent} {now.astimezone(UTC).isoformat(timespec='milliseconds')}"


def tracing(note: str | None) -> dict[str, str]:
    """The annotation; none without a note."""
    return {} if note is None else {ANNOTATION_TRACE: note}
