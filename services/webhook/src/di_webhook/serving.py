"""What the API server may, and how its reviews are served."""

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

# Time for reviews in flight at SIGTERM; each has 5 s.
DRAIN: Final = 10

# The API server gives a webhook 5 s for all of it. It comes from one address, with up to 200
# changes at once by its defaults, and keeps connections of earlier ones.
REVIEWS: Final = Bounds(
    handshake_seconds=4.0,
    read_seconds=4.0,
    queue_seconds=4.0,
    write_seconds=5.0,
    # Longer than the API server keeps an idle connection (90 s), so that it is never this side
    # that closes one just as a review is sent on it.
    idle_seconds=120.0,
    # It asks once, so a connection it may be about to use is kept until it is likely to have been
    # used a last time.
    leave_seconds=5.0,
    connections=1024,
    # Of 200 changes at once each may open one, while others are open that are not needed any more.
    connections_of_source=768,
    body_bytes=lambda _path: MAX_BODY_BYTES,
    # All users' reviews come from the API server.
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
        config: where, and in how many threads.
        certificate: for the connection that is accepted now.
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
