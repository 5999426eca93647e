"""Heartbeats of members, `status.progress.heartbeats`: who was alive when, and for how long that
holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from di_api.dns_names import is_dns_label
from di_api.field_error import mapping
from di_api.status.heartbeats import (
    FIELD,
    LEAST_SECONDS,
    MAX_MEMBERS,
    MOST_SECONDS,
    is_limit,
    read_heartbeats,
)
from di_api.timestamps import format_time
from di_server.problems import OutOfBounds

KEY: Final = "heartbeat"
"""Key of a report, which is not stored in the profilings."""
_EARLY: Final = 8
"""A heartbeat within this fraction of its time since the last one is not written."""
_FORGOTTEN: Final = timedelta(hours=1)
"""Age at which a heartbeat can give its place to another member."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat as a member sends it."""

    pod: str
    within: int


def beat_of(raw: object) -> Beat:
    """Return the heartbeat in the value of `KEY`.

    Raises:
        OutOfBounds: with the field.
    """
    fields = mapping(raw)
    pod, within = fields.get("pod"), fields.get("withinSeconds")
    if not isinstance(pod, str) or not is_dns_label(pod):
        raise OutOfBounds(f"{KEY}.pod: must be the name of a pod")
    if not is_limit(within):
        raise OutOfBounds(
            f"{KEY}.withinSeconds: must be a whole number from {LEAST_SECONDS} to {MOST_SECONDS}"
        )
    return Beat(pod, within)


def beaten(before: object, beat: Beat, now: datetime) -> dict[str, Any]:
    """Return `status.progress` after a heartbeat.

    While as many members as possible are recorded, another one gets the place of the one that was
    silent longest, if that is an hour, else none.
    """
    progress: dict[str, Any] = {**mapping(before)}
    known = read_heartbeats(progress)
    last = known.get(beat.pod)
    if last is not None and last.within == beat.within:
        if now - last.at < timedelta(seconds=beat.within / _EARLY):
            return progress
    elif last is None and len(known) >= MAX_MEMBERS:
        oldest = min(known, key=lambda pod: known[pod].at)
        if now - known[oldest].at < _FORGOTTEN:
            return progress
        del known[oldest]
    held: Mapping[str, Any] = mapping(progress.get(FIELD))
    entries = {pod: held[pod] for pod in known}
    entries[beat.pod] = {"at": format_time(now), "withinSeconds": beat.within}
    return {**progress, FIELD: entries}
