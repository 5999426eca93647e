"""Each service counts its reads of the serving certificate, and shows when it expires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from di_dashboard.shared import metrics as dashboard
from di_history import metrics as history
from di_server import metrics as server
from di_service.serving.certificate import CertificateReport
from di_webhook import metrics as webhook

OF_SERVICES: dict[str, Callable[[], Any]] = {
    "server": server.Metrics,
    "history": history.Metrics,
    "webhook": lambda: webhook.Metrics(monotonic=lambda: 0.0),
    "dashboard": dashboard.Metrics,
}


@pytest.mark.parametrize("service", OF_SERVICES)
@pytest.mark.proves(
    "metrics.md#server/di-server-certificate-reloads-total",
    "metrics.md#server/di-server-certificate-expiry-timestamp",
    "metrics.md#history/di-history-certificate-reloads-total",
    "metrics.md#history/di-history-certificate-expiry-timestamp",
    "metrics.md#webhook/di-webhook-certificate-reloads-total",
    "metrics.md#webhook/di-webhook-certificate-expiry-timestamp",
    "metrics.md#dashboard/di-dashboard-certificate-reloads-total",
    "metrics.md#dashboard/di-dashboard-certificate-expiry",
)
def test_reads_of_the_certificate_are_counted_and_its_expiry_is_shown(service: str) -> None:
    metrics = OF_SERVICES[service]()
    registry: CollectorRegistry = metrics.registry
    report = CertificateReport(
        reloads=metrics.reloads, expiry=metrics.expiry, log=structlog.get_logger()
    )
    prefix = f"di_{service}_certificate"
    assert registry.get_sample_value(f"{prefix}_expiry_timestamp_seconds") == 0
    report.certificate_loaded(datetime(2030, 1, 1, tzinfo=UTC))
    report.certificate_refused("no certificate")
    report.certificate_refused("no key")
    assert registry.get_sample_value(f"{prefix}_expiry_timestamp_seconds") == 1893456000
    counts = [
        registry.get_sample_value(f"{prefix}_reloads_total", {"result": result})
        for result in ("loaded", "refused")
    ]
    assert counts == [1, 2]
