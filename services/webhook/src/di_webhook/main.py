"""Composition root of the admission webhook."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime

import structlog

from di_api.names import WEBHOOK_NAME
from di_service.logs import configure_logs
from di_service.serving.certificate import CertificateReport, ServingCertificate
from di_service.settings import SettingsError, refuse_to_start
from di_webhook.app import create_app
from di_webhook.config import load_config
from di_webhook.metrics import Metrics
from di_webhook.probes import probe_pages
from di_webhook.serving import serve


def main() -> None:
    """Serve until SIGTERM; running reviews are answered first."""
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
    pages = probe_pages(metrics=metrics, is_ready=certificate.is_usable)
    app = create_app(
        metrics=metrics,
        log=log,
        pages=pages,
        monotonic=time.monotonic,
        companion_kinds=config.companion_kinds,
        speakers=config.speakers,
    )
    serve(app, pages, config=config, certificate=certificate)


if __name__ == "__main__":
    main()
