"""A fake receiver of OTLP metrics over HTTP, which reads them by OpenTelemetry's own messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from tests.fakes.web import Handler, serving


@dataclass(slots=True)
class MetricsReceiver:
    """What has come, by its path; `status` is the answer to all."""

    url: str = ""
    status: int = 200
    requests: list[tuple[str, ExportMetricsServiceRequest]] = field(default_factory=list)

    def points(self) -> dict[str, list[tuple[float, float]]]:
        """Times in seconds and values of each metric."""
        return {
            metric.name: [
                (at.time_unix_nano / 1e9, at.as_double) for at in metric.gauge.data_points
            ]
            for _, request in self.requests
            for of_resource in request.resource_metrics
            for scope in of_resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def receiving() -> Iterator[MetricsReceiver]:
    """Receive on a free port of this machine."""
    found = MetricsReceiver()

    class Receiving(Handler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append((self.path, ExportMetricsServiceRequest.FromString(raw)))
            self.answer(found.status)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiving)
    server.daemon_threads = True
    with serving(server) as place:
        found.url = f"http://{place}"
        yield found
