"""Composition root of the shared dashboard."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from di_api.names import DASHBOARD_NAME
from di_cli.access.kubeconfig import Access
from di_dashboard.app import create_app
from di_dashboard.cluster_cache.feed import OpenPages
from di_dashboard.pages.parts import Parts
from di_dashboard.session import HistoryPlace, client_of, looking
from di_dashboard.shared.config import Config, load_config
from di_dashboard.shared.metrics import Metrics
from di_dashboard.shared.rejected_tokens import RejectedTokens
from di_dashboard.shared.rights import Caller, Known, Rights, ask
from di_dashboard.shared.serving import END_SECONDS, bounds_of, probe_pages, refusal
from di_dashboard.shared.sessions import Sessions
from di_dashboard.shared.sign_in import TokenDoor, add_choice
from di_kube.config import ConfigError, KubeConfig
from di_kube.server_time import ServerTime
from di_service.logs import configure_logs
from di_service.serving.certificate import reported_certificate
from di_service.serving.front import Front
from di_service.serving.gunicorn import Gunicorn
from di_service.serving.worker import Serving
from di_service.settings import Address, SettingsError, refuse_to_start

_THREADS: Final = 32
"""Threads for requests; a page that waits for changes holds none."""


def main() -> None:
    """Serve until SIGTERM; exits with 2 for invalid settings."""
    try:
        config = load_config(sys.argv[1:], os.environ)
        kube = api_server(config, os.environ)
        history = history_place(config)
    except (SettingsError, ConfigError, OSError) as error:
        refuse_to_start(DASHBOARD_NAME, error)
    configure_logs(config.log_level)
    Gunicorn(
        name=DASHBOARD_NAME,
        binds=[config.bind, *filter(None, [config.health_bind])],
        seconds_to_end=END_SECONDS,
        log_level=config.log_level,
        load=partial(load, config, kube, history),
    ).run()


def api_server(config: Config, environ: Any) -> KubeConfig:
    """Return the access to the API server, without a user.

    Raises:
        ConfigError: there is no address.
        OSError: its CA certificates are unreadable.
    """
    server = config.api_server
    if server is None:
        try:
            host, port = (environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        except KeyError as error:
            raise ConfigError("outside a pod --api-server has to be given") from error
        server = f"https://{Address(host=host, port=int(port))}"
    return KubeConfig(server=server.rstrip("/"), ca_pem=config.api_ca.read_bytes())


def history_place(config: Config) -> HistoryPlace | None:
    """Return the access to di-history.

    Raises:
        OSError: its CA certificates are unreadable.
    """
    if config.history_server is None:
        return None
    authority = config.history_ca.read_text() if config.history_ca else ""
    return HistoryPlace(server=config.history_server, authority=authority)


def load(config: Config, kube: KubeConfig, history: HistoryPlace | None) -> Serving:
    """Build what the worker serves; called in the worker, because threads and connections do not
    survive a fork.
    """
    metrics = Metrics()
    clock = ServerTime(wall=lambda: datetime.now(UTC), monotonic=time.monotonic)

    def access_of(caller: Caller, scope: str | None) -> Access:
        own = replace(kube, authorization=lambda: f"Bearer {caller.token}")
        return Access(config=own, namespace=scope or "default", context=config.cluster)

    def find(caller: Caller, scope: str | None) -> Rights:
        with client_of(access_of(caller, scope), clock, 1) as client:
            return ask(client, scope)

    known = Known(find, clock=time.monotonic)
    secret = secrets.token_bytes(32)
    open_pages = OpenPages(config.pages)

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
                form_token=sign_in.form_token(caller),
                read_only=config.read_only,
                history=history,
                user=rights.user,
                stay=stay,
                open_pages=open_pages,
            ) as found,
        ):
            yield found

    sessions = Sessions(
        opening, known, most=config.callers, idle_seconds=config.idle_seconds, clock=time.monotonic
    )
    rejected_tokens = RejectedTokens(clock=time.monotonic)
    sign_in = TokenDoor(sessions, known, rejected_tokens, secret=secret, metrics=metrics)
    sessions.start()
    metrics.show_watches(lambda: sessions.count)
    app = create_app(sign_in, config.path)
    app.config["SESSION_COOKIE_SECURE"] = config.cert_dir is not None
    add_choice(app)
    certificate = None
    if config.cert_dir is not None:
        certificate = reported_certificate(
            config.cert_dir, reloads=metrics.reloads, expiry=metrics.expiry
        )
    return Serving(
        front=Front(
            app,
            threads=_THREADS,
            bounds=bounds_of(config.streams),
            refusal=refusal,
            tls=certificate.context if certificate else None,
        ),
        probes=probe_pages(
            registry=metrics.registry,
            is_ready=certificate.is_usable if certificate else lambda: True,
            clock=time.monotonic,
        ),
        probe_port=config.health_bind.port if config.health_bind else None,
        grace=END_SECONDS,
    )


if __name__ == "__main__":
    main()
