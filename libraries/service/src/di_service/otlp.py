"""Traces by OpenTelemetry's SDK, sent as OTLP over HTTP; imported only if tracing is enabled."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span as SdkSpan
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from di_service.spans import TRACEPARENT, Attributes

_SECONDS: Final = 5
"""Timeout of one attempt to send, in seconds."""
_WAITING: Final = 2048
"""Maximum number of spans that wait to be sent; further ones are dropped."""
_PERIOD: Final = 1000
"""Milliseconds between two batches."""
_FORMAT: Final = TraceContextTextMapPropagator()


class Exported:
    """The tracer of one service, with an OTLP exporter."""

    def __init__(self, url: str, *, service: str, ratio: float) -> None:
        """`url` is the receiver's, without `/v1/traces`."""
        exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=_SECONDS)
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service}),
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            # `close` is called when a service drains, not when the interpreter ends.
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=_WAITING, schedule_delay_millis=_PERIOD)
        )
        self._tracer = self._provider.get_tracer("di_service.otlp")

    def start(
        self,
        name: str,
        *,
        parent: str | None = None,
        at: datetime | None = None,
        attributes: Attributes | None = None,
    ) -> _Exported:
        """Start a span."""
        known = parent if parent is not None and TRACEPARENT.fullmatch(parent) else None
        context = _FORMAT.extract({"traceparent": known} if known else {})
        begun = self._tracer.start_span(
            name, context=context, attributes=dict(attributes or {}), start_time=_nanoseconds(at)
        )
        return _Exported(begun)

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


class _Exported:
    def __init__(self, span: SdkSpan) -> None:
        self._span = span

    @property
    def traceparent(self) -> str | None:
        found = self._span.get_span_context()
        if not found.trace_flags.sampled:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-01"

    def end(self, *, at: datetime | None = None, error: str = "") -> None:
        if error:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end(_nanoseconds(at))


def _nanoseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1_000_000) * 1000
