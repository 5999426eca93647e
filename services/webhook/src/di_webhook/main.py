"""Composition root of the admission webhook."""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from di_webhook.app import create_app
from di_webhook.certificate import ServingCertificate
from di_webhook.config import Config, InvalidConfig, split_address
from di_webhook.logs import create_log
from di_webhook.metrics import Metrics
from di_webhook.probes import probe_pages, serve_probes
from di_webhook.serving import Gunicorn

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


class CertificateReport:
    """Writes what happens to the serving certificate into log and metrics."""

    def __init__(self, *, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._metrics = metrics
        self._log = log

    def certificate_loaded(self, expires: datetime) -> None:
        """Count the new certificate and show when it expires."""
        self._metrics.reloads.labels("loaded").inc()
        self._metrics.expiry.set(expires.timestamp())
        self._log.info("serving certificate loaded", expires=expires.isoformat())

    def certificate_refused(self, reason: str) -> None:
        """Count the refusal; what was served before still is."""
        self._metrics.reloads.labels("refused").inc()
        self._log.warning("serving certificate not usable", reason=reason)


def main() -> None:
    """Serve until SIGTERM; reviews in flight are answered first."""
    try:
        config = Config.from_environment(os.environ)
    except InvalidConfig as error:
        sys.exit(f"di-webhook: {error}")
    log = create_log(config.log_level)
    metrics = Metrics(monotonic=time.monotonic)
    certificate = ServingCertificate(
        config.certificate_dir,
        observer=CertificateReport(metrics=metrics, log=log),
        now=lambda: datetime.now(UTC),
    )
    try:
        host, port = split_address(config.health_bind)
        # Bound before the worker is forked: the socket outlives a worker that dies.
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        sys.exit(f"di-webhook: DI_WEBHOOK_HEALTH_BIND: {config.health_bind}: {error.strerror}")

    def load() -> WSGIApplication:
        # Runs in the worker process: the metrics served are the ones counted there.
        serve_probes(listener, probe_pages(metrics=metrics, is_ready=certificate.is_usable))
        return create_app(
            metrics=metrics, log=log, is_ready=certificate.is_usable, monotonic=time.monotonic
        )

    Gunicorn(config=config, certificate=certificate, load=load).run()


if __name__ == "__main__":
    main()
