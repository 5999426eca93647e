"""The HTTP endpoint for probes and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager

from di_service.exposition import EXPOSITION_SECONDS
from di_service.serving.listeners import bound
from di_service.serving.probe_server import Page, SlowPages, serving
from di_service.settings import Address

# The format that a Prometheus server accepts if no newer one is offered.
METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_health(
    *,
    address: Address,
    alive: Callable[[], str | None],
    ready: Callable[[], str | None],
    begin_metrics: Callable[[], Callable[[], bytes]],
    monotonic: Callable[[], float],
) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port, a free one if the address has 0.

    /healthz and /readyz respond 503 with the reason that `alive` or `ready` returns, 200 when it
    returns None. `alive` must not fail for an unreachable API server: the operator would be
    restarted again and again, and lose its caches each time. `begin_metrics` collects on the event
    loop; the function that it returns renders the text in a thread, at most once a second
    (`monotonic` returns seconds).

    Raises:
        OSError: the address is in use or does not belong to this machine.
    """

    def probe(objection: Callable[[], str | None]) -> Page:
        reason = objection()
        return Page(b"ok\n") if reason is None else Page(f"{reason}\n".encode(), 503)

    async def metrics() -> Page:
        return Page(await scrapes.text(), content_type=METRICS_CONTENT_TYPE)

    pages: SlowPages = {
        "/healthz": lambda: probe(alive),
        "/readyz": lambda: probe(ready),
        "/metrics": metrics,
    }
    listeners = bound(address)
    # A separate thread: long work in others must not delay a scrape.
    with ThreadPoolExecutor(1, thread_name_prefix="metrics") as thread:
        scrapes = _Scrapes(begin_metrics, thread, monotonic)
        async with serving(pages, listeners):
            yield int(listeners[0].getsockname()[1])


class _Scrapes:
    """Renders once for all scrapes that arrive meanwhile and in the second after."""

    def __init__(
        self,
        begin: Callable[[], Callable[[], bytes]],
        thread: Executor,
        monotonic: Callable[[], float],
    ) -> None:
        self._begin = begin
        self._thread = thread
        self._monotonic = monotonic
        self._rendering: asyncio.Task[bytes] | None = None
        self._ended = 0.0

    async def text(self) -> bytes:
        """Return the metrics as text; raises the error of the rendering."""
        rendering = self._rendering
        if rendering is None or (rendering.done() and self._is_old(rendering)):
            rendering = self._rendering = asyncio.create_task(self._render())
        # The first client can disconnect: others wait for the same rendering.
        return await asyncio.shield(rendering)

    async def _render(self) -> bytes:
        try:
            render = self._begin()
            return await asyncio.get_running_loop().run_in_executor(self._thread, render)
        finally:
            self._ended = self._monotonic()

    def _is_old(self, rendering: asyncio.Task[bytes]) -> bool:
        is_broken = rendering.cancelled() or rendering.exception() is not None
        return is_broken or self._monotonic() - self._ended >= EXPOSITION_SECONDS
