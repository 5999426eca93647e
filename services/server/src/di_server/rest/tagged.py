"""Data with an ETag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Tagged:
    """A handler's result with an ETag, which clients can send back."""

    data: object

    @property
    def tag(self) -> str:
        """Return the tag, which differs for different data (RFC 9110, 8.8.3)."""
        return hashlib.sha256(orjson.dumps(self.data)).hexdigest()[:_DIGITS]
