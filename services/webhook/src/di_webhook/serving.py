"""Limits for the API server, and the server of its reviews."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from di_api.names import WEBHOOK_NAME
from di_service.serving.bounds import Bounds
from di_service.serving.certificate import ServingCertificate
from di_service.serving.front import Front
from di_service.serving.gunicorn import Gunicorn
from di_service.serving.probe_server import Pages
from di_service.serving.worker import Serving
from di_webhook.app import MAX_BODY_BYTES
from di_webhook.config import Config
from di_webhook.review import tenant_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Seconds for running reviews at SIGTERM; each has 5 s.
DRAIN: Final = 10

# The API server waits 5 s for a webhook. All its calls come from one address, with up to 200
# concurrent changes by default, and it reuses connections.
REVIEWS: Final = Bounds(
    handshake_seconds=4.0,
    read_seconds=4.0,
    queue_seconds=4.0,
    write_seconds=5.0,
    # Longer than the API server keeps an idle connection (90 s), so that this side never closes one
    # just as a review is sent on it.
    idle_seconds=120.0,
    # The API server does not retry, so a connection stays open until its last use is likely over.
    leave_seconds=5.0,
    connections=1024,
    # Each of 200 concurrent changes can open a connection, while unused ones are still open.
    connections_of_source=768,
    body_bytes=lambda _path: MAX_BODY_BYTES,
    # The reviews of all users come from the API server.
    tenant=tenant_of,
    bodies_bytes=48 * 1024 * 1024,
)


def serve(
    app: WSGIApplication, pages: Pages, *, config: Config, certificate: ServingCertificate
) -> None:
    """Serve until SIGTERM.

    Args:
        app: answers reviews.
        pages: for probes.
        config: addresses, and number of threads.
        certificate: for new connections.
    """

    def load() -> Serving:
        front = Front(
            app, threads=config.threads, bounds=REVIEWS, refusal=_refusal, tls=certificate.context
        )
        health = config.health_bind.port
        return Serving(front=front, probes=pages, probe_port=health, grace=DRAIN)

    Gunicorn(
        name=WEBHOOK_NAME,
        binds=[config.bind, config.health_bind],
        seconds_to_end=DRAIN,
        log_level=config.log_level,
        load=load,
    ).run()


def _refusal(_status: int, message: str) -> bytes:
    return json.dumps({"message": message}).encode()
