"""What the page for many says of itself; one registry a process, made at its start."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """`di_dashboard_*`; nothing of it is of one person."""

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
        self.reloads = Counter(
            "di_dashboard_certificate_reloads",
            "Times the serving certificate was read, by result.",
            ["result"],
            registry=self.registry,
        )
        self.expiry = Gauge(
            "di_dashboard_certificate_expiry_timestamp_seconds",
            "When the serving certificate expires, 0 while there is none.",
            registry=self.registry,
        )

    def show_watches(self, count: Callable[[], int]) -> None:
        """Show how many there are."""
        self._watches.set_function(count)
