"""Data that many responses have."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shared:
    """A handler's result for many clients: its body is encoded once, and in memory once, as long as
    any of them has not read it.
    """

    data: object
    bodies: dict[str, bytes] = field(default_factory=dict, repr=False)
    """By the message of the response."""
