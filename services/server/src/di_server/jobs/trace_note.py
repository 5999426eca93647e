"""Annotations written with a change of a job, among them the span of the request that asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from di_api.names import ANNOTATION_TRACE


def noted(traceparent: str, now: datetime) -> str:
    """What the annotation says: the span, and when it was."""
    return f"{traceparent} {now.astimezone(UTC).isoformat(timespec='milliseconds')}"


def tracing(note: str | None) -> dict[str, str]:
    """The annotation; none without a note."""
    return {} if note is None else {ANNOTATION_TRACE: note}


def annotating(job: Mapping[str, Any], *annotations: Mapping[str, str]) -> list[dict[str, Any]]:
    """The operations (RFC 6902) that give a job these annotations; none without any."""
    wanted = {key: value for each in annotations for key, value in each.items()}
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value}
        for key, value in wanted.items()
    ]
    if operations and not job["metadata"].get("annotations"):
        operations.insert(0, {"op": "add", "path": "/metadata/annotations", "value": {}})
    return operations
