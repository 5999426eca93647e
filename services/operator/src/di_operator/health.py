"""The HTTP endpoint for probes and metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from di_api.exposition import Exposition
from di_api.serving.probe_server import Page, serving

# What a Prometheus server asks for when it is offered nothing newer.
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_health(
    *,
    host: str,
    port: int,
    ready: Callable[[], str | None],
    render_metrics: Callable[[], bytes],
    monotonic: Callable[[], float],
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port (a free one if `port` is 0).

    /healthz says only that the event loop turns: an API server that is away is no reason to
    restart the operator, and a restart loop would lose its caches. /readyz answers 503 with the
    reason that `ready` returns, 200 when it returns None. Metrics are rendered on the event loop,
    where what they read belongs, and once a second at most (`monotonic` tells seconds).

    Raises:
        OSError: the address is taken or not ours.
    """

    def readyz() -> Page:
        reason = ready()
        return Page(b"ok\n") if reason is None else Page(f"{reason}\n".encode(), 503)

    exposition = Exposition(render_metrics, clock=monotonic)
    pages = {
        "/healthz": lambda: Page(b"ok\n"),
        "/readyz": readyz,
        "/metrics": lambda: Page(exposition(), content_type=METRICS_CONTENT_TYPE),
    }
    listener = await _listen(host, port)
    async with serving(pages, [listener]):
        address = listener.getsockname()
        yield int(address[1])


async def _listen(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return socket.create_server(address[:2], family=family)
