"""Composition root of the page for many."""

from __future__ import annotations

import os
import secrets
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # ships no types
from typing_extensions import override

from di_api.kube.config import ConfigError, KubeConfig
from di_api.kube.server_time import ServerTime
from di_api.names import DASHBOARD_NAME
from di_api.service.logs import configure_logs
from di_api.service.settings import SettingsError, refuse_to_start
from di_api.serving.certificate import (
    CERTIFICATE_FILE,
    PRIVATE_KEY_FILE,
    ServingCertificate,
    reported_certificate,
)
from di_api.serving.gunicorn import process_settings
from di_cli.access.kubeconfig import Access
from di_dashboard.app import create_app
from di_dashboard.looking import HistoryPlace, client_of, looking
from di_dashboard.parts import Parts
from di_dashboard.shared.config import Config, load_config
from di_dashboard.shared.door import TokenDoor, add_choice
from di_dashboard.shared.metrics import Metrics
from di_dashboard.shared.rights import Caller, Known, Rights, ask
from di_dashboard.shared.rooms import Rooms
from di_dashboard.shared.strangers import Strangers

_END_SECONDS: Final = 5
_IDLE_CONNECTIONS: Final = 256


def main() -> None:
    """Serve until SIGTERM; exits with 2 when the settings make no sense."""
    try:
        config = load_config(sys.argv[1:], os.environ)
        kube = api_server(config, os.environ)
        history = history_place(config)
    except (SettingsError, ConfigError, OSError) as error:
        refuse_to_start(DASHBOARD_NAME, error)
    configure_logs(config.log_level)
    metrics = Metrics()
    _Gunicorn(config, metrics, partial(load, config, kube, history, metrics)).run()


def api_server(config: Config, environ: Any) -> KubeConfig:
    """Where the API server is, and nobody to be there.

    Raises:
        ConfigError: nobody says where it is.
        OSError: its authorities cannot be read.
    """
    server = config.api_server
    if server is None:
        try:
            host, port = (environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        except KeyError as error:
            raise ConfigError("outside a pod --api-server has to be given") from error
        server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return KubeConfig(server=server.rstrip("/"), ca_pem=config.api_ca.read_bytes())


def history_place(config: Config) -> HistoryPlace | None:
    """Where di-history is.

    Raises:
        OSError: its authority cannot be read.
    """
    if config.history_server is None:
        return None
    authority = config.history_ca.read_text() if config.history_ca else ""
    return HistoryPlace(
        server=config.history_server, account=config.history_account, authority=authority
    )


def load(config: Config, kube: KubeConfig, history: HistoryPlace | None, metrics: Metrics) -> Flask:
    """The application; called in the worker: threads and connections survive no fork."""
    clock = ServerTime(wall=lambda: datetime.now(UTC), monotonic=time.monotonic)

    def access_of(caller: Caller, scope: str | None) -> Access:
        own = replace(kube, authorization=lambda: f"Bearer {caller.token}")
        return Access(config=own, namespace=scope or "default", context=config.cluster)

    def find(caller: Caller, scope: str | None) -> Rights:
        with client_of(access_of(caller, scope), clock, 1) as client:
            return ask(client, scope)

    known = Known(find, clock=time.monotonic)
    secret = secrets.token_bytes(32)

    @contextmanager
    def opening(
        caller: Caller, scope: str | None, rights: Rights, stay: Callable[[], bool]
    ) -> Iterator[Parts]:
        access = access_of(caller, scope)
        with (
            client_of(access, clock) as client,
            looking(
                access,
                client,
                clock,
                scope=scope,
                form_token=door.form_token(caller),
                read_only=config.read_only,
                history=history,
                user=rights.user,
                stay=stay,
                most_pages=config.pages,
            ) as found,
        ):
            yield found

    rooms = Rooms(
        opening, known, most=config.callers, idle_seconds=config.idle_seconds, clock=time.monotonic
    )
    strangers = Strangers(clock=time.monotonic)
    door = TokenDoor(rooms, known, strangers, secret=secret, metrics=metrics)
    rooms.start()
    metrics.show_watches(lambda: rooms.count)
    if config.health_bind is not None:
        metrics.serve(config.health_bind)
    app = create_app(door)
    app.config["SESSION_COOKIE_SECURE"] = config.cert_dir is not None
    add_choice(app)
    return app


class _Gunicorn(BaseApplication):  # type: ignore[misc]  # an untyped base
    """One worker: what is open is in its memory. A page that is told of changes holds a thread."""

    def __init__(self, config: Config, metrics: Metrics, load: Callable[[], Flask]) -> None:
        self._config = config
        self._metrics = metrics
        self._load = load
        super().__init__()

    @override
    def load_config(self) -> None:
        config = self._config
        settings: dict[str, Any] = {
            **process_settings(DASHBOARD_NAME, config.log_level),
            "bind": str(config.bind),
            "worker_class": "gthread",
            "threads": config.threads,
            "worker_connections": config.threads + _IDLE_CONNECTIONS,
            "keepalive": 30,
            "graceful_timeout": _END_SECONDS,
            # Who looks needs no log of looking.
            "accesslog": None,
        }
        if config.cert_dir is not None:
            certificate = reported_certificate(
                config.cert_dir, reloads=self._metrics.reloads, expiry=self._metrics.expiry
            )
            settings |= {
                # Both have to be named for gunicorn to speak TLS; what is served is the context.
                "certfile": str(config.cert_dir / CERTIFICATE_FILE),
                "keyfile": str(config.cert_dir / PRIVATE_KEY_FILE),
                "ssl_context": partial(_context, certificate),
            }
        for name, value in settings.items():
            self.cfg.set(name, value)

    @override
    def load(self) -> Flask:
        return self._load()


def _context(certificate: ServingCertificate, _config: object, _default: object) -> ssl.SSLContext:
    """Of a connection that is accepted now."""
    return certificate.context()


if __name__ == "__main__":
    main()
