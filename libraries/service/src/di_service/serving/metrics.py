"""Prometheus metrics that services have in common, each below the service's own name."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Buckets of durations."""


def certificate_metrics(service: str, registry: CollectorRegistry) -> tuple[Counter, Gauge]:
    """Return the counter of reads of the serving certificate, and the gauge of its expiry."""
    return (
        Counter(
            f"di_{service}_certificate_reloads",
            "Times the serving certificate was read, by result.",
            ["result"],
            registry=registry,
        ),
        Gauge(
            f"di_{service}_certificate_expiry_timestamp_seconds",
            "When the serving certificate expires, 0 while there is none.",
            registry=registry,
        ),
    )


def request_metrics(service: str, registry: CollectorRegistry) -> tuple[Counter, Histogram]:
    """Return the counter of requests, and the histogram of their durations."""
    return (
        Counter(
            f"di_{service}_requests",
            "Requests answered, by operation and HTTP status.",
            ["operation", "code"],
            registry=registry,
        ),
        Histogram(
            f"di_{service}_request_seconds",
            "Time from the request line to the answer.",
            ["operation"],
            buckets=SECONDS,
            registry=registry,
        ),
    )
