"""Prometheus metrics of the shared dashboard; one registry per process."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from di_service.serving.metrics import certificate_metrics


class Metrics:
    """The metrics `di_dashboard_*`, without data about single users."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._watches = Gauge(
            "di_dashboard_watches",
            "Watches that are open: one for each person and namespace that is looked at.",
            registry=self.registry,
        )
        self.refusals = Counter(
            "di_dashboard_refusals",
            "Requests refused before their page, by reason: token, address, rights or room.",
            ["reason"],
            registry=self.registry,
        )
        self.reloads, self.expiry = certificate_metrics("dashboard", self.registry)

    def show_watches(self, count: Callable[[], int]) -> None:
        """Register the gauge of watches."""
        self._watches.set_function(count)
