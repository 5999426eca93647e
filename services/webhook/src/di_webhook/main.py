"""Composition root of the admission webhook."""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from di_api.names import WEBHOOK_NAME
from di_api.service.logs import configure_logs
from di_api.service.settings import SettingsError, refuse_to_start
from di_api.serving.certificate import CertificateReport, ServingCertificate
from di_webhook.app import create_app
from di_webhook.config import load_config
from di_webhook.metrics import Metrics
from di_webhook.probes import probe_pages, serve_probes
from di_webhook.serving import serve

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


def main() -> None:
    """Serve until SIGTERM; reviews in flight are answered first."""
    try:
        config = load_config(sys.argv[1:], os.environ)
    except SettingsError as error:
        refuse_to_start(WEBHOOK_NAME, error)
    configure_logs(config.log_level)
    log = structlog.get_logger("di_webhook")
    metrics = Metrics(monotonic=time.monotonic)
    certificate = ServingCertificate(
        config.cert_dir,
        observer=CertificateReport(reloads=metrics.reloads, expiry=metrics.expiry, log=log),
        now=lambda: datetime.now(UTC),
    )
    try:
        # Bound before the worker is forked: the socket outlives a worker that dies.
        host = config.health_bind.host
        listener = socket.create_server(
            (host, config.health_bind.port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
        )
    except OSError as error:
        sys.exit(f"di-webhook: DI_WEBHOOK_HEALTH_BIND: {config.health_bind}: {error.strerror}")

    def load() -> WSGIApplication:
        # Runs in the worker process: the metrics served are the ones counted there.
        serve_probes(listener, probe_pages(metrics=metrics, is_ready=certificate.is_usable))
        return create_app(
            metrics=metrics, log=log, is_ready=certificate.is_usable, monotonic=time.monotonic
        )

    serve(config=config, certificate=certificate, load=load)


if __name__ == "__main__":
    main()
