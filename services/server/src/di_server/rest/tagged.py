"""Data that is known again by a tag, and requests that wait for other data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Tagged:
    """What a handler returns in place of data whose ETag clients may show again."""

    data: object

    @property
    def tag(self) -> str:
        """Another one for other data (RFC 9110, 8.8.3)."""
        return hashlib.sha256(orjson.dumps(self.data)).hexdigest()[:_DIGITS]
