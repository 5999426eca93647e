"""Liveness, readiness and metrics of the history."""

from __future__ import annotations

import threading
from typing import cast

import pytest
from prometheus_client import CollectorRegistry, Counter

from di_history.probes import pages
from di_service.serving.probe_server import Page


@pytest.mark.parametrize(
    ("is_draining", "has_certificate", "is_ready", "code", "message"),
    [
        (False, True, True, 200, b"ok\n"),
        (False, True, False, 503, b"the database is not ready\n"),
        (False, False, False, 503, b"no usable serving certificate\n"),
        (True, True, True, 503, b"draining\n"),
    ],
)
def test_readiness_needs_a_certificate_and_tables_and_ends_with_draining(
    is_draining: bool, has_certificate: bool, is_ready: bool, code: int, message: bytes
) -> None:
    draining, registry = threading.Event(), CollectorRegistry()
    if is_draining:
        draining.set()
    Counter("some", "A counter.", registry=registry)
    found = pages(
        registry=registry,
        draining=draining,
        has_certificate=lambda: has_certificate,
        is_ready=lambda: is_ready,
        clock=lambda: 0.0,
    )
    ready, alive, metrics = (
        cast(Page, found[path]()) for path in ("/readyz", "/healthz", "/metrics")
    )
    assert (ready.status, ready.body) == (code, message)
    assert (alive.status, metrics.status) == (200, 200)
    assert b"some_total 0.0" in metrics.body
