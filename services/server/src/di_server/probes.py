"""What the cluster and its monitoring ask."""

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
    """Liveness, readiness and metrics; no caller needs to identify itself."""

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
        """Nothing is asked yet.

        Args:
            has_certificate: whether HTTPS works, where it is served.
            has_asked: whether other replicas have been asked for the members that they know.
            exemplars: whether metrics name traces, which takes the format of OpenMetrics.
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
        """Alive: never depends on the API server, a restart would not bring that back."""
        return success("ok", None)

    def readyz(self) -> Response:
        """Ready: not draining, able to shake hands, told what others know, and this replica
        reaches the API server."""
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
        """The registry as Prometheus reads it, at most a second old."""
        return Response(self._exposition(), content_type=self._content_type)

    def pages(self) -> SlowPages:
        """The three for the address for probes, where no thread of requests is needed."""

        async def readyz() -> Page:
            # It may wait for the API server.
            return _page(await asyncio.to_thread(self.readyz))

        return {
            "/healthz": lambda: _page(self.healthz()),
            "/readyz": readyz,
            "/metrics": lambda: _page(self.metrics()),
        }

    def _api_reachable(self) -> bool:
        # Anybody may ask, so an answer is kept for a moment, and one thread asks at a time while
        # others repeat the answer before: no more than one waits for a slow API server.
        if not self._lock.acquire(blocking=False):
            return self._reachable
        try:
            now = self._clock()
            if self._asked_at is None or now - self._asked_at >= _FRESH_SECONDS:
                try:
                    # As long as a request may take. With less a slow API server would take
                    # every replica out of the Service at once, and refused connections are worse
                    # for a training program than waiting.
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
