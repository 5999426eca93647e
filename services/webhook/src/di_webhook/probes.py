"""Health and metrics, for the kubelet and Prometheus."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Blueprint, Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST
from typing_extensions import override

from di_webhook.metrics import Metrics

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


def probes(*, metrics: Metrics, is_ready: Callable[[], bool]) -> Blueprint:
    """The routes /healthz, /readyz and /metrics."""
    blueprint = Blueprint("probes", __name__)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    @blueprint.get("/readyz")
    def readyz() -> Response:
        if is_ready():
            return Response("ok\n", mimetype="text/plain")
        return Response("no usable serving certificate\n", status=503, mimetype="text/plain")

    @blueprint.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.expose(), content_type=CONTENT_TYPE_LATEST)

    return blueprint


def create_probe_app(*, metrics: Metrics, is_ready: Callable[[], bool]) -> Flask:
    """An application of the probes alone, for the port without TLS."""
    app = Flask("di_webhook.probes", static_folder=None)
    app.register_blueprint(probes(metrics=metrics, is_ready=is_ready))
    return app


class _Handler(WSGIRequestHandler):
    # A prober that stops talking must not hold its thread.
    timeout = 5

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds and say nothing worth a line."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A prober that went away is no event, and no traceback."""


def serve_probes(listener: socket.socket, app: WSGIApplication) -> None:
    """Serve the application on a listening socket, in a thread that ends with the process."""
    host, port = listener.getsockname()[:2]
    server = _Server((host, port), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    # What server_bind would have done, less the reverse look-up of the own address: in a pod
    # without DNS that look-up takes seconds.
    server.server_name, server.server_port = host, port
    server.setup_environ()
    server.set_app(app)
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
