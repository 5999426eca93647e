"""The entries of the tables of operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_BODY: Final = 64 * 1024
"""Default maximum bytes of a body."""
Shape = Mapping[str, Any]
"""A JSON schema, as in OpenAPI 3.1."""
UNSETTLED: Final = {504: "The API server did not say whether the change has taken effect."}
"""Additional status of operations whose repetition can be another change."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # each is itself: a key of mappings
class Operation:
    """One method on one resource of a job."""

    name: str
    method: str
    resource: str
    verb: str
    """RBAC verb on `dijobs/scale` that users need."""
    summary: str
    message: str
    """Message of a successful response."""
    body: Shape | None
    data: Shape
    max_body: int = MAX_BODY
    """Maximum bytes of the body."""
    below: str = ""
    """Name of the path parameter after the resource; empty: there is none."""
    query: tuple[str, ...] = ()
    """Keys of its query."""
    is_tagged: bool = False
    """Whether its responses have an ETag, and it accepts If-None-Match."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Additional statuses with their causes, besides the common ones."""
    idempotent: bool = False
    """Whether it accepts an Idempotency-Key."""
