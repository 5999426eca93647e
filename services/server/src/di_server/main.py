"""Composition root of di-server."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Final

import structlog
from flask import Flask

from di_api.names import SERVER_NAME
from di_kube.config import ConfigError as KubeConfigError
from di_kube.config import KubeConfig
from di_kube.config import load_config as load_kube_config
from di_kube.server_time import ServerTime
from di_kube.sync import SyncKubeClient
from di_server import serving
from di_server.access.address_lookups import AddressLookups
from di_server.access.authorizer import Authorizer
from di_server.access.budget import Budget
from di_server.access.permissions import Permissions
from di_server.access.rate_limits import AuthFailureLimiter, RateLimiter
from di_server.access.tokens import TokenAuthenticator
from di_server.app import create_app
from di_server.config import Config, load_config
from di_server.coordination.handlers import CoordinationHandlers
from di_server.coordination.service import CoordinationService
from di_server.deadline import COORDINATION_SECONDS, Clock
from di_server.jobs.handlers import JobHandlers
from di_server.jobs.service import JobService
from di_server.jobs.stored_shards import StoredShards
from di_server.members.handlers import MemberHandlers
from di_server.members.peers import Peers, connector, resolver
from di_server.members.service import MemberService, lives
from di_server.members.shared import Members
from di_server.metrics import Metrics
from di_server.probes import Probes
from di_server.problems import OverBudget
from di_server.retry_policy import RetryPolicy
from di_server.storage.caches import Caches
from di_server.storage.informers import Informers
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Kube
from di_server.storage.learners import LearnerStore
from di_server.storage.pods import PodStore
from di_server.storage.reviews import ReviewStore
from di_server.storage.updates import JobUpdates
from di_service.logs import configure_logs
from di_service.serving.certificate import certificate_of
from di_service.serving.front import Front
from di_service.serving.gunicorn import Gunicorn
from di_service.serving.worker import Serving
from di_service.settings import SettingsError, refuse_to_start
from di_service.spans import Tracing
from di_service.tracing import OFF, tracing

_GRACE_SECONDS: Final = serving.READ_SECONDS + COORDINATION_SECONDS


def main() -> None:
    """Run the server until SIGTERM; exits with 2 for invalid settings."""
    try:
        settings = load_config(sys.argv[1:], os.environ)
        kube_config = load_kube_config(settings.kubeconfig, clock=time.monotonic)
    except (SettingsError, KubeConfigError) as error:
        refuse_to_start(SERVER_NAME, error)
    configure_logs(settings.log_level)
    Gunicorn(
        name=SERVER_NAME,
        binds=[*settings.binds, *filter(None, [settings.health_bind])],
        seconds_to_end=settings.drain_seconds + _GRACE_SECONDS,
        log_level=settings.log_level,
        load=partial(load, settings=settings, kube_config=kube_config),
    ).run()


def build_app(
    *,
    settings: Config,
    kube: Kube,
    caches: Caches,
    members: Members,
    server: str,
    probes: Probes,
    draining: threading.Event,
    metrics: Metrics,
    clock: Clock,
    now: Callable[[], datetime],
    sleep: Callable[[float], None],
    rng: Random,
    traces: Tracing = OFF,
) -> Flask:
    """Build the application of one process; `server` is its name among its peers, and `draining` is
    set when it is about to end.
    """
    for resource, cache in caches.by_resource.items():
        metrics.watch(resource, cache)
    metrics.count_members(lambda: len(members), lambda: members.waiting)
    namespace = settings.watch_namespace
    jobs = JobStore(kube=kube, namespace=namespace, cache=caches.jobs)
    pods = PodStore(kube=kube, namespace=namespace, cache=caches.pods)
    reviews = ReviewStore(kube=kube)
    authorizer = Authorizer(
        mode=settings.auth,
        authenticator=TokenAuthenticator(
            reviews=reviews, budget=Budget(rate=settings.review_rate, clock=clock), clock=clock
        ),
        permissions=Permissions(reviews=reviews, clock=clock),
        pods=pods,
        lookups=AddressLookups(pods=pods, budget=Budget(rate=settings.lookup_rate, clock=clock)),
        rate_limiter=RateLimiter(rate=settings.rate, burst=settings.burst, clock=clock),
        auth_failures=AuthFailureLimiter(
            rate=settings.refusal_rate, burst=settings.refusal_burst, clock=clock
        ),
        # Unknown callers wait in a quarter of the threads at most.
        policy=RetryPolicy(
            max_waiting=max(1, settings.threads // 4), rng=rng, sleep=sleep, retry_on=(OverBudget,)
        ),
        tls_port=settings.tls_port,
        own_token=partial(_peer_token, settings),
    )
    updates = JobUpdates(
        jobs=jobs,
        rng=rng,
        sleep=sleep,
        on_conflict=metrics.conflicts.inc,
        waiting=max(1, settings.threads // 4),
    )
    # A quarter of the threads is reserved for requests that need not wait.
    policy = RetryPolicy(max_waiting=max(1, settings.threads * 3 // 4), rng=rng, sleep=sleep)
    learners = LearnerStore(
        kube=kube, caches=caches, config=settings.aggregator_config, nodes=settings.watch_nodes
    )
    return create_app(
        jobs=JobHandlers(
            service=JobService(
                jobs=jobs,
                pods=pods,
                updates=updates,
                shards=StoredShards(
                    jobs=jobs,
                    pods=pods,
                    updates=updates,
                    waiting=max(1, settings.threads // 2),
                    clock=clock,
                    now=now,
                    sleep=sleep,
                ),
                default_max_replicas=settings.default_max_replicas,
                names_callers=settings.names_callers,
                report_seconds=settings.report_seconds,
                reports_waiting=max(1, settings.threads // 2),
                waiting=max(1, settings.threads // 4),
                service_domain=settings.service_domain,
                is_ending=draining.is_set,
                clock=clock,
                now=now,
                sleep=sleep,
            ),
            authorizer=authorizer,
            clock=clock,
        ),
        members=MemberHandlers(
            service=MemberService(members=members, jobs=jobs, pods=pods, server=server),
            authorizer=authorizer,
            clock=clock,
        ),
        coordination=CoordinationHandlers(
            service=CoordinationService(
                jobs=jobs,
                pods=pods,
                learners=learners,
                updates=updates,
                names_callers=settings.names_callers,
                policy=policy,
                rng=rng,
            ),
            authorizer=authorizer,
            policy=policy,
            clock=clock,
        ),
        probes=probes,
        metrics=metrics,
        clock=clock,
        traces=traces,
    )


def load(*, settings: Config, kube_config: KubeConfig) -> Serving:
    """Build what the worker serves; called in the worker, because threads and connections do not
    survive a fork.
    """
    caches, metrics = Caches(), Metrics()
    # The local wall clock: the API server's has whole seconds, and a pod can send several entries
    # in one.
    members = Members(lives=lives(caches.pods), clock=time.monotonic, now=lambda: datetime.now(UTC))
    threading.Thread(target=members.run, name="members", daemon=True).start()
    # A new name at every start, because the process has forgotten everything.
    server = secrets.token_hex(8)
    peers = _peers(settings, members, server, metrics)
    config = settings.aggregator_config
    Informers(
        caches=caches,
        config=kube_config,
        namespace=settings.watch_namespace,
        config_namespace=config.namespace if config else None,
        # Needed only for learners on several GPUs.
        nodes=settings.watch_nodes and config is not None,
        on_pod=members.on_pod,
        clock=time.monotonic,
        rng=Random(),
    ).start()
    draining = threading.Event()
    certificate = certificate_of(
        settings.tls_port, settings.cert_dir, reloads=metrics.reloads, expiry=metrics.expiry
    )
    # One for each thread and one for the readiness probe: no thread waits for a connection while
    # others wait for a response.
    server_time = ServerTime(wall=lambda: datetime.now(UTC), monotonic=time.monotonic)
    kube = SyncKubeClient(
        config=kube_config, connections=settings.threads + 1, on_date=server_time.observe
    )
    probes = Probes(
        jobs=JobStore(kube=kube, namespace=settings.watch_namespace, cache=caches.jobs),
        registry=metrics.registry,
        draining=draining,
        has_certificate=certificate.is_usable if certificate else lambda: True,
        has_asked=lambda: peers is None or peers.asked,
        clock=time.monotonic,
        exemplars=settings.traces is not None,
    )
    traces = tracing(settings.traces, service=SERVER_NAME, ratio=settings.trace_ratio)
    app = build_app(
        settings=settings,
        kube=kube,
        caches=caches,
        members=members,
        server=server,
        probes=probes,
        draining=draining,
        metrics=metrics,
        clock=time.monotonic,
        now=server_time.now,
        sleep=time.sleep,
        rng=Random(),
        traces=traces,
    )
    if peers is not None:
        peers.start()
    health = settings.health_bind
    return Serving(
        front=Front(
            app,
            threads=settings.threads,
            bounds=serving.REST,
            refusal=serving.refusal,
            tls=certificate.context if certificate else None,
            tls_port=settings.tls_port,
        ),
        probes=probes.pages(),
        probe_port=health.port if health else None,
        grace=_GRACE_SECONDS,
        drain_seconds=settings.drain_seconds,
        on_drain=draining.set,
        on_end=traces.close,
    )


def _peers(settings: Config, members: Members, server: str, metrics: Metrics) -> Peers | None:
    if not settings.peers:
        return None
    return Peers(
        members=members,
        server=server,
        resolve=resolver(settings.peers),
        connect=connector(
            token=partial(_peer_token, settings),
            authority=settings.cert_dir / "ca.crt" if settings.tls_port else None,
            host=settings.peer_host,
        ),
        on_exchange=lambda good: metrics.exchanges.labels("good" if good else "failed").inc(),
    )


def _peer_token(settings: Config) -> str | None:
    """Return the token, read for each use, because the kubelet replaces it while the pod runs."""
    try:
        return settings.peer_token_file.read_text().strip() if settings.peer_token_file else None
    except OSError as error:
        structlog.get_logger().warning("no token for peers", error=str(error))
        return None


if __name__ == "__main__":
    main()
