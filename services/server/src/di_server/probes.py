"""Probes and metrics."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

import structlog
from flask import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from di_kube.errors import ApiError
from di_server.deadline import Clock, Deadline
from di_server.rest.envelope import failure, success
from di_server.storage.jobs import JobStore
from di_service.exposition import Exposition
from di_service.serving.probe_server import Page, SlowPages

_FRESH_SECONDS: Final = 1.0
_log = structlog.get_logger()


class Probes:
    """Liveness, readiness and metrics; callers need no authentication."""

    def __init__(
        self,
        *,
        jobs: JobStore,
        registry: CollectorRegistry,
        draining: threading.Event,
        has_certificate: Callable[[], bool],
        has_asked: Callable[[], bool],
        clock: Clock,
        exemplars: bool = False,
    ) -> None:
        """Prepare the probes.

        Args:
            has_certificate: whether HTTPS works, if it is served.
            has_asked: whether other replicas have been called for their members.
            exemplars: whether metrics refer to traces, which needs the OpenMetrics format.
        """
        self._jobs = jobs
        render = openmetrics.generate_latest if exemplars else generate_latest
        self._content_type = openmetrics.CONTENT_TYPE_LATEST if exemplars else CONTENT_TYPE_LATEST
        self._exposition = Exposition(lambda: render(registry), clock=clock)
        self._draining = draining
        self._has_certificate = has_certificate
        self._has_asked = has_asked
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._reachable = False

    def healthz(self) -> Response:
        """Return liveness, which never depends on the API server: a restart would not
        restore it.
        """
        return success("ok", None)

    def readyz(self) -> Response:
        """Return readiness: not draining, with a usable certificate and the peers' members, and the
        API server is reachable.
        """
        if self._draining.is_set():
            return failure(503, "draining")
        if not self._has_certificate():
            return failure(503, "no usable serving certificate")
        if not self._has_asked():
            return failure(503, "the other replicas have not been asked yet")
        if not self._api_reachable():
            return failure(503, "the API server is away")
        return success("ok", None)

    def metrics(self) -> Response:
        """Return the metrics for Prometheus, at most a second old."""
        return Response(self._exposition(), content_type=self._content_type)

    def pages(self) -> SlowPages:
        """Return the three pages for the probe address, which needs no request threads."""

        async def readyz() -> Page:
            # It can wait for the API server.
            return _page(await asyncio.to_thread(self.readyz))

        return {
            "/healthz": lambda: _page(self.healthz()),
            "/readyz": readyz,
            "/metrics": lambda: _page(self.metrics()),
        }

    def _api_reachable(self) -> bool:
        # Any client can call it, so a result is cached briefly, and one thread at a time calls the
        # API server while others return the previous result: at most one waits for a slow API
        # server.
        if not self._lock.acquire(blocking=False):
            return self._reachable
        try:
            now = self._clock()
            if self._asked_at is None or now - self._asked_at >= _FRESH_SECONDS:
                try:
                    # As long as a request can take. With less a slow API server would remove every
                    # replica from the Service at once, and refused connections are worse for a
                    # training program than waiting.
                    self._jobs.probe(Deadline.after(self._clock))
                    self._reachable = True
                except ApiError as error:
                    _log.warning("API server unreachable", error=str(error))
                    self._reachable = False
                self._asked_at = self._clock()
            return self._reachable
        finally:
            self._lock.release()


def _page(response: Response) -> Page:
    return Page(response.get_data(), response.status_code, response.headers["Content-Type"])
