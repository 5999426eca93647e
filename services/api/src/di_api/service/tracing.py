"""Traces of what a request to scale a job brings about, for who has a receiver of OpenTelemetry.

Without an address nothing of OpenTelemetry is imported. With one, spans go there in batches from a
thread of their own: a receiver that is away costs spans and holds up nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Protocol

from marshmallow import fields, validate

from di_api.service.settings import Setting

TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, version 00, level 1."""

TRACES: Final = Setting(
    "traces",
    fields.String(load_default=None, validate=validate.Regexp(r"https?://[^/]\S*\Z")),
    "base URL of a receiver of OTLP over HTTP, http://HOST:4318; empty: there are no traces",
)
TRACE_RATIO: Final = Setting(
    "trace_ratio",
    fields.Float(load_default=1.0, validate=validate.Range(0, 1)),
    "share of requests that are traced, of those whose sender has not decided it",
)

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


class _Nothing:
    @property
    def traceparent(self) -> str | None:
        return None

    def end(self, *, at: datetime | None = None, error: str = "") -> None:
        """Nothing was begun."""


class _Off:
    def start(
        self,
        _name: str,
        *,
        parent: str | None = None,
        at: datetime | None = None,
        attributes: Attributes | None = None,
    ) -> Span:
        return _NOTHING

    def close(self) -> None:
        """Nothing is left."""


_NOTHING: Final = _Nothing()
OFF: Final[Tracing] = _Off()
"""There are no traces."""


def tracing(url: str | None, *, service: str, ratio: float) -> Tracing:
    """Traces of a service that go to the receiver at `url`; None: there are none.

    Starts a thread, so it is for the process that serves.
    """
    if url is None:
        return OFF
    # Only here: it is a third of what a service loads, and most have no receiver.
    from di_api.service.otlp import Exported  # noqa: PLC0415  # see above

    return Exported(url, service=service, ratio=ratio)
