"""The webhook's Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from di_service.exposition import Exposition
from di_service.serving.metrics import certificate_metrics


class Metrics:
    """All metrics of the webhook, in a separate registry."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.admissions = Counter(
            "di_webhook_admissions_total",
            "Reviews answered.",
            ["webhook", "outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "di_webhook_admission_seconds",
            "Time from the first byte of a request read by the application to its answer.",
            ["webhook"],
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.5, 1, 5),
            registry=self.registry,
        )
        self.faults = Counter(
            "di_webhook_faults_total",
            "Reviews denied because a rule failed to run; always a defect.",
            registry=self.registry,
        )
        self.reloads, self.expiry = certificate_metrics("webhook", self.registry)
        self.expose = Exposition(lambda: generate_latest(self.registry), clock=monotonic)
        """Returns the text exposition format, at most a second old."""
