"""Samples: the numbers in a job's reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.field_error import mapping
from di_api.profilings import numbers_of
from di_history.changes.times import millis
from di_history.records import Sample


def sample_of(job: str, status: Mapping[str, Any]) -> Sample | None:
    """Return the numbers of the last report with its time; None without a report or numbers."""
    at = millis(mapping(status.get("progress")).get("reportedAt"))
    numbers = numbers_of(status)
    return Sample(job=job, at=at, values=numbers) if at is not None and numbers else None
