"""Composition root of di-history."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from random import Random
from typing import Final

from di_api.names import HISTORY_NAME
from di_history import probes
from di_history.config import Config, load_config
from di_history.keeping import Keeper, SpoolSettings
from di_history.metrics import Metrics
from di_history.records import Millis
from di_history.rest.access import Access
from di_history.rest.app import create_app, failure_body
from di_history.rest.usage import UsageAnswers
from di_history.store.engine import STATEMENT_SECONDS, open_engine
from di_history.store.reader import Reader
from di_history.store.retention import Retention
from di_history.usage.prices import Prices
from di_history.whole_logs import WholeLogs, open_bucket
from di_kube.config import ConfigError as KubeConfigError
from di_kube.config import KubeConfig
from di_kube.config import load_config as load_kube_config
from di_kube.sync import SyncKubeClient
from di_service.logs import configure_logs
from di_service.serving.bounds import Bounds
from di_service.serving.certificate import certificate_of
from di_service.serving.front import Front
from di_service.serving.gunicorn import Gunicorn
from di_service.serving.worker import Serving
from di_service.settings import SettingsError, refuse_to_start

_READ_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = _READ_SECONDS + STATEMENT_SECONDS
_DAY: Final = 86_400_000
_BESIDE_REQUESTS: Final = 3
"""Database connections of the follower, the writer and the sweeper."""
BOUNDS: Final = Bounds(
    handshake_seconds=_READ_SECONDS,
    read_seconds=_READ_SECONDS,
    queue_seconds=float(STATEMENT_SECONDS),
    write_seconds=10.0,
    idle_seconds=75.0,
    connections=512,
    connections_of_source=128,
    # No request has a body.
    body_bytes=lambda _path: 1024,
    bodies_bytes=1024 * 1024,
)


def main() -> None:
    """Run until SIGTERM; exits with 2 for invalid settings."""
    try:
        settings = load_config(sys.argv[1:], os.environ)
        kube_config = load_kube_config(settings.kubeconfig, clock=time.monotonic)
        # Checked now, and not in a worker that would die.
        open_engine(settings.database).dispose()
        _whole_logs(settings)
    except (SettingsError, KubeConfigError) as error:
        refuse_to_start(HISTORY_NAME, error)
    configure_logs(settings.log_level)
    Gunicorn(
        name=HISTORY_NAME,
        binds=[*settings.binds, *filter(None, [settings.health_bind])],
        seconds_to_end=settings.drain_seconds + _GRACE_SECONDS,
        log_level=settings.log_level,
        load=partial(load, settings=settings, kube_config=kube_config),
    ).run()


def load(*, settings: Config, kube_config: KubeConfig) -> Serving:
    """Build what the worker serves; called in the worker, because threads and connections do not
    survive a fork.
    """
    metrics, draining = Metrics(), threading.Event()
    engine = open_engine(settings.database, connections=settings.threads + _BESIDE_REQUESTS)
    whole_logs = _whole_logs(settings)
    keeper = Keeper(
        engine=engine,
        config=kube_config,
        namespace=settings.watch_namespace,
        retention=Retention(
            age=round(settings.days * _DAY), size=settings.most_bytes, job=settings.job_bytes
        ),
        price_label=settings.price_label,
        log_bytes=settings.log_bytes,
        job_log_bytes=settings.job_log_bytes,
        whole_logs=whole_logs,
        spool=SpoolSettings(
            folder=settings.spool_dir,
            room=settings.spool_bytes,
            most=settings.whole_log_bytes,
        ),
        metrics=metrics,
        now=_now,
        clock=time.monotonic,
        rng=Random(),
    )
    certificate = certificate_of(
        settings.tls_port, settings.cert_dir, reloads=metrics.reloads, expiry=metrics.expiry
    )
    app = create_app(
        reader=Reader(engine),
        usage=UsageAnswers(engine, Prices(label=settings.price_label, hourly=settings.prices)),
        whole_logs=whole_logs,
        access=Access(
            mode=settings.auth,
            kube=SyncKubeClient(config=kube_config, connections=settings.threads),
            review_rate=settings.review_rate,
            clock=time.monotonic,
        ),
        is_ready=lambda: keeper.is_ready,
        now=_now,
        metrics=metrics,
        clock=time.monotonic,
    )
    keeper.start()

    def drain() -> None:
        draining.set()
        keeper.end()

    health = settings.health_bind
    return Serving(
        front=Front(
            app,
            threads=settings.threads,
            bounds=BOUNDS,
            refusal=lambda _status, message: failure_body(message),
            tls=certificate.context if certificate else None,
            tls_port=settings.tls_port,
        ),
        probes=probes.pages(
            registry=metrics.registry,
            draining=draining,
            has_certificate=certificate.is_usable if certificate else lambda: True,
            is_ready=lambda: keeper.is_ready,
            clock=time.monotonic,
        ),
        probe_port=health.port if health else None,
        grace=_GRACE_SECONDS,
        drain_seconds=settings.drain_seconds,
        on_drain=drain,
    )


def _whole_logs(settings: Config) -> WholeLogs | None:
    """Return the bucket, if one is configured.

    Raises:
        SettingsError: its settings are invalid.
    """
    if not settings.object_storage:
        return None
    if settings.log_bytes == 0:
        raise SettingsError("object_storage with log_bytes=0: whole logs, and no logs at all")
    try:
        return open_bucket(
            settings.object_storage,
            endpoint=settings.object_endpoint,
            region=settings.object_region,
            authority=settings.object_ca_file.read_bytes() if settings.object_ca_file else None,
        )
    except (OSError, ValueError) as error:
        raise SettingsError(str(error)) from error


def _now() -> Millis:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
