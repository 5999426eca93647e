"""The interface of spans, independent of how they are recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Protocol

TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""Pattern of W3C Trace Context, version 00, level 1."""

Attributes = Mapping[str, str | int]


class Span(Protocol):
    """An operation with a duration."""

    @property
    def traceparent(self) -> str | None:
        """Return the traceparent for child spans; None: the span is not recorded."""

    def end(self, *, at: datetime | None = None, error: str = "") -> None:
        """End the span, now or at a time; `error` is what failed, if anything."""


class Tracing(Protocol):
    """Creates spans."""

    def start(
        self,
        name: str,
        *,
        parent: str | None = None,
        at: datetime | None = None,
        attributes: Attributes | None = None,
    ) -> Span:
        """Start a span, now or at a time; `parent` is a traceparent, and an invalid one counts as
        absent.
        """

    def close(self) -> None:
        """Send the remaining spans within seconds."""


def trace_id(traceparent: str) -> str:
    """Return the trace id of a traceparent."""
    return traceparent.split("-")[1]
