"""Limits for clients of the shared dashboard, and its probes."""

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
"""Connections for requests of one source, which all users of a single sign-on share."""


def bounds_of(streams: int) -> Bounds:
    """Return the limits.

    Args:
        streams: maximum number of pages with live changes, each on a separate connection.
    """
    of_source = streams + _BESIDE_STREAMS
    return Bounds(
        handshake_seconds=5.0,
        read_seconds=10.0,
        # A page can wait for a slow API server.
        queue_seconds=15.0,
        write_seconds=15.0,
        idle_seconds=75.0,
        connections=of_source * 4 // 3,
        connections_of_source=of_source,
        connections_per_second=50.0,
        body_bytes=lambda _path: MOST_BODY,
        bodies_bytes=64 * MOST_BODY,
        # A proxy adds its own cookies.
        field_bytes=24 * 1024,
        head_bytes=64 * 1024,
        fields=100,
        line_bytes=8190,
        # `RejectedTokens` counts expired tokens of open pages.
        counts_refused_tokens=False,
    )


def refusal(_status: int, message: str) -> bytes:
    """Return the body of a response to input that never became a request."""
    return json.dumps({"message": message}).encode()


def probe_pages(
    *, registry: CollectorRegistry, is_ready: Callable[[], bool], clock: Callable[[], float]
) -> Pages:
    """Return the pages of the port for probes.

    Args:
        is_ready: whether a browser would get a valid certificate.
        clock: returns seconds.
    """
    exposition = Exposition(lambda: generate_latest(registry), clock=clock)
    return {
        "/healthz": lambda: Page(b"ok\n"),
        "/readyz": lambda: Page(b"ok\n") if is_ready() else Page(b"no usable certificate\n", 503),
        "/metrics": lambda: Page(exposition(), content_type=CONTENT_TYPE_LATEST),
    }
