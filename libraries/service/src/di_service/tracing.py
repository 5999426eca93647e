"""Traces of scale requests and their effects, for users with an OpenTelemetry receiver.

Without an address nothing of OpenTelemetry is imported. With one, a thread sends spans in batches:
an unreachable receiver loses spans and blocks nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from marshmallow import fields, validate

from di_service.settings import Setting
from di_service.spans import Attributes, Span, Tracing

TRACES: Final = Setting(
    "traces",
    fields.String(load_default=None, validate=validate.Regexp(r"https?://[^/]\S*\Z")),
    "base URL of a receiver of OTLP over HTTP, http://HOST:4318; empty: no traces",
)
TRACE_RATIO: Final = Setting(
    "trace_ratio",
    fields.Float(load_default=1.0, validate=validate.Range(0, 1)),
    "share of requests that are traced, among requests without a sampling decision",
)


class _Nothing:
    @property
    def traceparent(self) -> str | None:
        return None

    def end(self, *, at: datetime | None = None, error: str = "") -> None:
        """Do nothing."""


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
        """Do nothing."""


_NOTHING: Final = _Nothing()
OFF: Final[Tracing] = _Off()
"""Tracing that is disabled."""


def tracing(url: str | None, *, service: str, ratio: float) -> Tracing:
    """Return the tracing of a service to the receiver at `url`; None: disabled.

    Starts a thread, so call it in the process that serves.
    """
    if url is None:
        return OFF
    # Imported only here: it is a third of a service's modules, and most have no receiver.
    from di_service.otlp import Exported  # noqa: PLC0415  # see above

    return Exported(url, service=service, ratio=ratio)
