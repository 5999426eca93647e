"""What a span is to who begins one, whoever records it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Protocol

TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, version 00, level 1."""

Attributes = Mapping[str, str | int]


class Span(Protocol):
    """Something that takes time, or took it."""

    @property
    def traceparent(self) -> str | None:
        """What others are to name as the parent of theirs; None: it is not recorded."""

    def end(self, *, at: datetime | None = None, error: str = "") -> None:
        """Say that it is over, now or at a time; `error` is what was wrong, if anything."""


class Tracing(Protocol):
    """Where spans are begun."""

    def start(
        self,
        name: str,
        *,
        parent: str | None = None,
        at: datetime | None = None,
        attributes: Attributes | None = None,
    ) -> Span:
        """Begin a span, now or at a time; `parent` is a traceparent, and whatever is none of that
        counts as absent."""

    def close(self) -> None:
        """Send what is left, within seconds."""


def trace_id(traceparent: str) -> str:
    """The trace that a traceparent belongs to."""
    return traceparent.split("-")[1]
