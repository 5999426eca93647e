"""Composition root of di-server."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # ships no types

from di_api.kube.config import ConfigError as KubeConfigError
from di_api.kube.config import KubeConfig, load_config
from di_api.kube.sync import SyncKubeClient
from di_server import config, logs
from di_server.app import create_app
from di_server.config import Config, ConfigError
from di_server.deadline import COORDINATED_SECONDS, Clock
from di_server.handlers.coordination import CoordinationHandlers
from di_server.handlers.jobs import JobHandlers
from di_server.handlers.probes import Probes
from di_server.metrics import Metrics
from di_server.services.budget import Budget, OverBudget
from di_server.services.coordination import Coordination
from di_server.services.gate import Gate
from di_server.services.jobs import JobService
from di_server.services.limiter import Limiter, Refusals
from di_server.services.lookups import Lookups
from di_server.services.optimism import Optimism
from di_server.services.patience import Patience
from di_server.services.tokens import Tokens
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Kube
from di_server.storage.learners import LearnerStore
from di_server.storage.pods import PodStore
from di_server.storage.reviews import ReviewStore
from di_server.storage.sight import Sight, Watcher
from di_server.worker import PROBE_THREADS, READ_SECONDS, DrainingWorker

_KEEPALIVE_SECONDS: Final = 75


def main() -> None:
    """Run the server until SIGTERM; exits with 2 when the settings make no sense."""
    try:
        settings = config.from_environment(os.environ)
        kube_config = load_config(settings.kubeconfig, clock=time.monotonic)
    except (ConfigError, KubeConfigError) as error:
        sys.exit(f"di-server: {error}")
    logs.configure(settings.log_level)
    Server(settings=settings, kube_config=kube_config).run()


def build_app(
    *,
    settings: Config,
    kube: Kube,
    sight: Sight,
    draining: threading.Event,
    clock: Clock,
    sleep: Callable[[float], None],
    rng: Random,
) -> Flask:
    """Put the parts of one process together."""
    metrics = Metrics()
    for resource, mirror in sight.mirrors.items():
        metrics.watch(resource, mirror)
    namespace = settings.watch_namespace
    jobs = JobStore(kube=kube, namespace=namespace, mirror=sight.jobs)
    pods = PodStore(kube=kube, namespace=namespace, mirror=sight.pods)
    reviews = ReviewStore(kube=kube)
    gate = Gate(
        mode=settings.auth,
        tokens=Tokens(
            reviews=reviews, budget=Budget(rate=settings.review_rate, clock=clock), clock=clock
        ),
        reviews=reviews,
        pods=pods,
        lookups=Lookups(pods=pods, budget=Budget(rate=settings.lookup_rate, clock=clock)),
        refusals=Refusals(rate=settings.refusal_rate, burst=settings.refusal_burst, clock=clock),
        # Strangers wait in a quarter of the threads at most.
        patience=Patience(
            places=max(1, settings.threads // 4), rng=rng, sleep=sleep, outlasts=(OverBudget,)
        ),
    )
    optimism = Optimism(rng=rng, sleep=sleep, on_conflict=metrics.conflicts.inc)
    # A quarter of the threads is left to those who need not wait.
    patience = Patience(places=max(1, settings.threads * 3 // 4), rng=rng, sleep=sleep)
    limiter = Limiter(rate=settings.rate, burst=settings.burst, clock=clock)
    learners = LearnerStore(
        kube=kube, sight=sight, config=settings.aggregator_config, nodes=settings.watch_nodes
    )
    return create_app(
        jobs=JobHandlers(
            service=JobService(
                jobs=jobs,
                pods=pods,
                optimism=optimism,
                default_max_replicas=settings.default_max_replicas,
            ),
            gate=gate,
            limiter=limiter,
            clock=clock,
        ),
        coordination=CoordinationHandlers(
            service=Coordination(
                jobs=jobs,
                pods=pods,
                learners=learners,
                optimism=optimism,
                patience=patience,
                rng=rng,
            ),
            gate=gate,
            limiter=limiter,
            patience=patience,
            clock=clock,
        ),
        probes=Probes(jobs=jobs, registry=metrics.registry, draining=draining, clock=clock),
        metrics=metrics,
        clock=clock,
    )


class Server(BaseApplication):  # type: ignore[misc]  # an untyped base
    """gunicorn with one worker process of threads; more of them are more pods."""

    def __init__(self, *, settings: Config, kube_config: KubeConfig) -> None:
        self._settings = settings
        self._kube_config = kube_config
        self.draining = threading.Event()
        self.drain_seconds = settings.drain_seconds
        self.health_port = _port(settings.health_bind) if settings.health_bind else None
        super().__init__()

    def load_config(self) -> None:
        """Settings of gunicorn; called by its constructor."""
        values: dict[str, Any] = {
            "bind": [*self._settings.binds, *filter(None, [self._settings.health_bind])],
            "worker_class": DrainingWorker,
            # One process, so that limits and locks of a job are in one place; the work is
            # waiting for the API server, which threads do well.
            "workers": 1,
            "threads": self._settings.threads,
            "worker_connections": 1000,
            "keepalive": _KEEPALIVE_SECONDS,
            "graceful_timeout": int(self.drain_seconds + READ_SECONDS + COORDINATED_SECONDS) + 2,
            "limit_request_line": 4094,
            "limit_request_fields": 40,
            "limit_request_field_size": 8190,
            # Nothing in front of the server is believed about who the caller is.
            "forwarded_allow_ips": "",
            # The worker's heartbeat; /dev/shm is writable on a read-only root file system.
            "worker_tmp_dir": "/dev/shm",
            "logconfig_dict": logs.gunicorn_settings(self._settings.log_level),
            "proc_name": "di-server",
            "control_socket_disable": True,
        }
        for key, value in values.items():
            self.cfg.set(key, value)

    def load(self) -> Flask:
        """The application; called in the worker: threads and connections survive no fork."""
        settings, sight = self._settings, Sight()
        config = settings.aggregator_config
        Watcher(
            sight=sight,
            config=self._kube_config,
            namespace=settings.watch_namespace,
            config_namespace=config.namespace if config else None,
            # They only matter to learners on several GPUs.
            nodes=settings.watch_nodes and config is not None,
            clock=time.monotonic,
            rng=Random(),
        ).start()
        return build_app(
            settings=settings,
            # One for each thread: nobody waits for a connection while others wait for an answer,
            # least of all the probe of readiness.
            kube=SyncKubeClient(
                config=self._kube_config, connections=settings.threads + PROBE_THREADS
            ),
            sight=sight,
            draining=self.draining,
            clock=time.monotonic,
            sleep=time.sleep,
            rng=Random(),
        )


def _port(bind: str) -> int:
    return int(bind.rpartition(":")[2])


if __name__ == "__main__":
    main()
