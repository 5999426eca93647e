"""The last heartbeats of members in `status.progress.heartbeats`, which di-server writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeGuard

from di_api.field_error import mapping
from di_api.timestamps import parse_time

FIELD: Final = "heartbeats"
"""Field name in `status.progress`."""
MAX_MEMBERS: Final = 128
"""Maximum number of members of a job with a recorded heartbeat."""
LEAST_SECONDS: Final = 10
MOST_SECONDS: Final = 86_400
"""Bounds of the time within which the next heartbeat comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The last heartbeat of a member.

    Attributes:
        at: time of its arrival.
        within: seconds within which the member sends the next one.
    """

    at: datetime
    within: int


def read_heartbeats(progress: object) -> dict[str, Heartbeat]:
    """Return the heartbeats by pod, from a `status.progress` of any shape."""
    held = mapping(mapping(progress).get(FIELD))
    read = ((str(pod), _read(mapping(raw))) for pod, raw in [*held.items()][:MAX_MEMBERS])
    return {pod: found for pod, found in read if found is not None}


def is_limit(value: object) -> TypeGuard[int]:
    """Return whether a value is a valid number of seconds until the next heartbeat."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return LEAST_SECONDS <= value <= MOST_SECONDS


def _read(raw: Mapping[str, Any]) -> Heartbeat | None:
    at, within = parse_time(raw.get("at")), raw.get("withinSeconds")
    return Heartbeat(at=at, within=within) if at is not None and is_limit(within) else None
