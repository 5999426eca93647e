"""What clients of the page for many may, and what its probes show."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from di_dashboard.app import MOST_BODY
from di_service.exposition import Exposition
from di_service.serving.bounds import Bounds
from di_service.serving.probe_server import Page, Pages

END_SECONDS: Final = 5
_BESIDE_STREAMS: Final = 768
"""Connections for requests of one source, as are all who come by a single sign-on."""


def bounds_of(streams: int) -> Bounds:
    """Return the bounds of a page.

    Args:
        streams: pages that may be told of changes at once, each on a connection of its own.
    """
    of_source = streams + _BESIDE_STREAMS
    return Bounds(
        handshake_seconds=5.0,
        read_seconds=10.0,
        # A page may wait for an API server that takes its time.
        queue_seconds=15.0,
        write_seconds=15.0,
        idle_seconds=75.0,
        connections=of_source * 4 // 3,
        connections_of_source=of_source,
        connections_per_second=50.0,
        body_bytes=lambda _path: MOST_BODY,
        bodies_bytes=64 * MOST_BODY,
        # A proxy keeps cookies of its own.
        field_bytes=24 * 1024,
        head_bytes=64 * 1024,
        fields=100,
        line_bytes=8190,
        # Tokens that run out in pages left open are counted by `RejectedTokens`.
        counts_refused_tokens=False,
    )


def refusal(_status: int, message: str) -> bytes:
    """Return the body of an answer to what never became a request."""
    return json.dumps({"message": message}).encode()


def probe_pages(
    *, registry: CollectorRegistry, is_ready: Callable[[], bool], clock: Callable[[], float]
) -> Pages:
    """Return what the port for probes shows.

    Args:
        is_ready: whether a browser would be shown a certificate that holds.
        clock: tells seconds.
    """
    exposition = Exposition(lambda: generate_latest(registry), clock=clock)
    return {
        "/healthz": lambda: Page(b"ok\n"),
        "/readyz": lambda: Page(b"ok\n") if is_ready() else Page(b"no usable certificate\n", 503),
        "/metrics": lambda: Page(exposition(), content_type=CONTENT_TYPE_LATEST),
    }
