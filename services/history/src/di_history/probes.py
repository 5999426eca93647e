"""Probes and metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from di_service.exposition import Exposition
from di_service.serving.probe_server import Page, SlowPages


def pages(
    *,
    registry: CollectorRegistry,
    draining: threading.Event,
    has_certificate: Callable[[], bool],
    is_ready: Callable[[], bool],
    clock: Callable[[], float],
) -> SlowPages:
    """Return the pages for liveness, readiness and metrics.

    Liveness never depends on the database or the API server, because a restart would restore
    neither. Ready means: not draining, with a usable certificate, and the tables have existed once.
    While the database is unreachable requests get 503, which is more informative than a refused
    connection.
    """
    exposition = Exposition(lambda: generate_latest(registry), clock=clock)

    def readyz() -> Page:
        if draining.is_set():
            return Page(b"draining\n", 503)
        if not has_certificate():
            return Page(b"no usable serving certificate\n", 503)
        if not is_ready():
            return Page(b"the database is not ready\n", 503)
        return Page(b"ok\n")

    return {
        "/healthz": lambda: Page(b"ok\n"),
        "/readyz": readyz,
        "/metrics": lambda: Page(exposition(), content_type=CONTENT_TYPE_LATEST),
    }
