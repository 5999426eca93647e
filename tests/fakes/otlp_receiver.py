"""A fake receiver of OpenTelemetry: takes OTLP over HTTP and keeps the spans."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.fakes.web import Handler, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span as it was received; ids in hexadecimal."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    seconds: float
    attributes: dict[str, str | int]
    failed: bool


@dataclass(slots=True)
class OtlpReceiver:
    """What has come."""

    url: str
    spans: list[Span] = field(default_factory=list)

    def named(self, name: str) -> list[Span]:
        """The spans of that name, in the order in which they came."""
        return [each for each in self.spans if each.name == name]


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """A receiver on a free port of this machine."""
    found = OtlpReceiver("")

    class Taking(Handler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                found.spans.extend(_spans(body))
            self.answer(200)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    found.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield found


def _spans(body: bytes) -> Iterator[Span]:
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = {each.key: each.value.string_value for each in of_resource.resource.attributes}
        for scope in of_resource.scope_spans:
            for one in scope.spans:
                yield Span(
                    service=service["service.name"],
                    name=one.name,
                    trace=one.trace_id.hex(),
                    span=one.span_id.hex(),
                    parent=one.parent_span_id.hex(),
                    seconds=(one.end_time_unix_nano - one.start_time_unix_nano) / 1e9,
                    attributes={
                        each.key: each.value.string_value or each.value.int_value
                        for each in one.attributes
                    },
                    failed=one.status.code == 2,
                )
