"""The HTTP endpoint for probes and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

# What a Prometheus server asks for when it is offered nothing newer.
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_health(
    *,
    host: str,
    port: int,
    ready: Callable[[], str | None],
    render_metrics: Callable[[], bytes],
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port (a free one if `port` is 0).

    /healthz says only that the event loop turns: an API server that is away is no reason to
    restart the operator, and a restart loop would lose its caches. /readyz answers 503 with the
    reason that `ready` returns, 200 when it returns None.

    Raises:
        OSError: the address is taken or not ours.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = ready()
        if reason is None:
            return web.Response(text="ok\n")
        return web.Response(status=503, text=f"{reason}\n")

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": METRICS_CONTENT_TYPE}
        return web.Response(body=render_metrics(), headers=headers)

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        address = runner.addresses[0]
        yield int(address[1])
    finally:
        await runner.cleanup()
