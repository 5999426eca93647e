"""The numbers of a job as OTLP metrics, sent by OpenTelemetry's own library.

Headers, certificates and compression are those of its variables `OTEL_EXPORTER_OTLP_*`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from typing_extensions import override

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.export.points import Point

_PATH: Final = "/v1/metrics"
_PREFIX: Final = "di.job."
_LONGEST: Final = 255
_BAD: Final = re.compile(r"[^0-9A-Za-z_.\-/]")
"""Characters that a name of a metric must not have."""
_BATCH: Final = 2_000
_SECONDS: Final = 30.0
_LOGGER: Final = "opentelemetry"


def send_metrics(points: Iterable[Point], url: str, *, namespace: str, name: str, uid: str) -> int:
    """Send the points of a job as gauges with the times of its reports; return how many.

    Args:
        url: of the receiver, without a slash at the end; `/v1/metrics` is appended if it is not
            there.
        name, uid: of the job.

    Raises:
        CommandError: OpenTelemetry is not installed, or the receiver did not accept them.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415  only who uses it has it
            OTLPMetricExporter,
        )
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
            Gauge,
            Metric,
            MetricExportResult,
            MetricsData,
            NumberDataPoint,
            ResourceMetrics,
            ScopeMetrics,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(
            "OTLP metrics are sent by OpenTelemetry, which is not installed",
            where=str(error),
            remedy="pip install opentelemetry-exporter-otlp-proto-http",
        ) from error
    found: dict[str, list[NumberDataPoint]] = {}
    for each in points:
        at = round(each.at.timestamp() * 1_000_000) * 1_000
        found.setdefault(_metric(each.name), []).append(
            NumberDataPoint(
                attributes={}, start_time_unix_nano=0, time_unix_nano=at, value=each.value
            )
        )
    gauges = [
        Metric(name=key, description="", unit="", data=Gauge(data_points=series))
        for key, series in found.items()
    ]
    resource = Resource(
        {
            "service.name": "di-orchestrator",
            "k8s.namespace.name": namespace,
            "di.job.name": name,
            "di.job.uid": uid,
        }
    )
    scope = ScopeMetrics(scope=InstrumentationScope("di_cli.export"), metrics=gauges, schema_url="")
    data = MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])
    endpoint = url if url.endswith(_PATH) else url + _PATH
    exporter = OTLPMetricExporter(endpoint=endpoint, timeout=_SECONDS, max_export_batch_size=_BATCH)
    with _messages() as said:
        result = exporter.export(data)
        exporter.shutdown()
    if result is not MetricExportResult.SUCCESS:
        raise CommandError(
            f"the OTLP receiver at {endpoint} did not accept the metrics",
            where=said[-1] if said else "",
            remedy="--otlp URL, of a receiver for OTLP over HTTP, such as http://HOST:4318",
            code=ExitCode.UNAVAILABLE,
        )
    return sum(map(len, found.values()))


def _metric(name: str) -> str:
    return f"{_PREFIX}{_BAD.sub('_', name)}"[:_LONGEST]


class _Kept(logging.Handler):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def _messages() -> Iterator[list[str]]:
    """Yield the messages of the library, which returns no reason; they are not printed."""
    logger, kept = logging.getLogger(_LOGGER), _Kept()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(kept)
    try:
        yield kept.said
    finally:
        logger.removeHandler(kept)
        logger.propagate = propagate
