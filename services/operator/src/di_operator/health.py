"""The HTTP endpoint for probes and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from di_api.exposition import Exposition
from di_api.service.settings import Address
from di_api.serving.listeners import bound
from di_api.serving.probe_server import Page, serving

# What a Prometheus server asks for when it is offered nothing newer.
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_health(
    *,
    address: Address,
    alive: Callable[[], str | None],
    ready: Callable[[], str | None],
    render_metrics: Callable[[], bytes],
    monotonic: Callable[[], float],
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port, a free one if the address has 0.

    /healthz and /readyz answer 503 with the reason that `alive` or `ready` returns, 200 when it
    returns None. `alive` must not object to an unreachable API server: the operator would be
    restarted again and again, and lose its caches each time. Metrics are rendered on the event
    loop, where what they read belongs, and once a second at most (`monotonic` returns seconds).

    Raises:
        OSError: the address is taken or not ours.
    """

    def probe(objection: Callable[[], str | None]) -> Page:
        reason = objection()
        return Page(b"ok\n") if reason is None else Page(f"{reason}\n".encode(), 503)

    exposition = Exposition(render_metrics, clock=monotonic)
    pages = {
        "/healthz": lambda: probe(alive),
        "/readyz": lambda: probe(ready),
        "/metrics": lambda: Page(exposition(), content_type=METRICS_CONTENT_TYPE),
    }
    listeners = bound(address)
    async with serving(pages, listeners):
        yield int(listeners[0].getsockname()[1])
