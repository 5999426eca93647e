"""What the tables of operations are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_BODY: Final = 64 * 1024
"""Bytes, unless an operation takes more."""
Shape = Mapping[str, Any]
"""A JSON schema, as OpenAPI 3.1 takes it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # each is itself: a key of mappings
class Operation:
    """One method on one resource of a job."""

    name: str
    method: str
    resource: str
    verb: str
    """RBAC verb people need on `dijobs/scale`."""
    summary: str
    message: str
    """Of the response when it succeeds."""
    body: Shape | None
    data: Shape
    max_body: int = MAX_BODY
    """Bytes."""
    below: str = ""
    """What the last part of its path names, below the resource; empty: it ends there."""
    query: tuple[str, ...] = ()
    """Keys of its query."""
    is_tagged: bool = False
    """Whether its answers have an ETag, and it takes If-None-Match."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Statuses of its own, and when, beside those that all operations of its kind have."""
    idempotent: bool = False
    """Whether it takes an Idempotency-Key."""
