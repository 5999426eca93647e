"""Composition root of the operator: the only place that knows all parts."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import structlog
import uvloop

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_api.spec import MAX_PODS
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.config import ConfigError as KubeConfigError
from di_kube.config import KubeConfig
from di_kube.config import load_config as load_kube_config
from di_kube.resources import (
    DIJOBS,
    NODES,
    PODS,
    Resource,
)
from di_operator.allocator.policies.registry import PolicyError, load_policy
from di_operator.allocator_loop import Scheduler
from di_operator.certificates.manager import CertificateManager, certificate_settings
from di_operator.certificates.pod_authorities import ServerAuthorities
from di_operator.cluster.companions import Companions
from di_operator.cluster.default_aggregator import DefaultAggregator
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.cluster.executor import Executor
from di_operator.cluster.informer_state import (
    INDEX_PHASE,
    InformerState,
    transform_node,
    transform_other_pod,
)
from di_operator.cluster.kueue_watch import follow_kueue
from di_operator.cluster.quotas import follow_quotas
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.cluster.server_presence import ServerPresence
from di_operator.cluster.status_writer import StatusWriter
from di_operator.cluster.watch_caches import WATCH_LIMITS, watch_caches
from di_operator.config import Config, load_config
from di_operator.job_secrets.key import SecretKey
from di_operator.job_tasks.duties import job_task_duties
from di_operator.leadership.election import Election, SoleReplica, Timing, elect
from di_operator.leadership.release_claim import ClaimTiming, claim
from di_operator.lifecycle.observed.pods import PodCache
from di_operator.lifecycle.observed.specs import SpecCache, SpecReader
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.metrics.jobs.collect import Source
from di_operator.metrics.metrics import Metrics
from di_operator.notifications.notifier import Notifier
from di_operator.process.clock import Clock, ServerClock, SystemClock
from di_operator.process.concurrency import CONNECTIONS, Tenants, Writers
from di_operator.process.controller import Controller, JobKey, job_queue
from di_operator.process.exit_deadline import ExitDeadline
from di_operator.process.health import serve_health
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.queue import KeyedBackoff, KeyQueue
from di_operator.process.supervision import Duty, Supervisor
from di_operator.reconcile.reconciler import Reconciler
from di_operator.reconcile.traces import ScalingTraces
from di_operator.runtime import Runtime
from di_service.logs import configure_logs
from di_service.settings import SettingsError, refuse_to_start
from di_service.tracing import tracing

log = structlog.get_logger(__name__)

# Seconds. When the API server is back after a long outage every job is to be right within half a
# minute: the watches come back first, then the postponed jobs, some in several steps.
BACKOFF_INITIAL = 0.1
BACKOFF_MAXIMUM = 15.0
# Specs read lately; a job in a phase that changes is looked at again within milliseconds.
REMEMBERED_SPECS = 10_000
REMEMBERED_PODS = 2 * MAX_PODS


async def operate(
    *,
    config: Config,
    kube: KubeConfig,
    clock: Clock,
    rng: random.Random,
    stop: asyncio.Event,
    timing: Timing | None = None,
    claim_timing: ClaimTiming | None = None,
    on_serving: Callable[[int], None] = lambda port: None,
    on_ending: Callable[[], None] = lambda: None,
) -> None:
    """Run one replica until `stop` is set.

    `on_serving` is called with the port of the health endpoint, which is a free one if the
    configuration says 0; `on_ending` when the end begins, perhaps more than once.

    Raises:
        NotLeading: the lease was lost, or the claim on the jobs.
        PolicyError: the allocation policy cannot be used.
        OSError: the health endpoint's address cannot be used.
    """
    # Read by every part from here on: the local wall clock may be anything.
    server_clock = ServerClock(clock)
    clock, observe = server_clock, server_clock.observe
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            KubeClient(config=kube, connections=CONNECTIONS, on_date=observe)
        )
        # A lease renewal must not wait behind a thousand creates for a connection.
        lease_client = await stack.enter_async_context(
            KubeClient(config=kube, connections=2, on_date=observe)
        )
        traced = tracing(config.traces, service=OPERATOR_NAME, ratio=config.trace_ratio)
        stack.push_async_callback(asyncio.to_thread, traced.close)
        loss = Loss()
        leadership = elect(
            config, lease_client, timing=timing or Timing(), clock=clock, rng=rng, loss=loss
        )
        metrics = Metrics()
        queue = job_queue(workers=config.workers)
        caches = watch_caches(config, client, clock, rng)
        read_pod = PodCache(size=REMEMBERED_PODS)
        informers = InformerState(caches=caches, wake=queue.add_after, follow_pod=read_pod.follow)
        kueue = follow_kueue(
            config, client=client, informers=informers, limits=WATCH_LIMITS, clock=clock, rng=rng
        )
        recorder = EventRecorder(
            client=client, clock=clock, instance=config.identity, observer=metrics
        )
        read_spec = SpecCache(size=REMEMBERED_SPECS)
        scheduler = _scheduler(
            config,
            client=client,
            caches=caches,
            read_spec=read_spec,
            wake=queue.add_after,
            clock=clock,
            rng=rng,
            metrics=metrics,
        )
        server_ca = _server_ca(config, client, informers, clock)
        secret_key = None
        if config.job_secrets is not None:
            secret_key = SecretKey(
                client, namespace=config.namespace, secret=config.job_secrets, clock=clock
            )
        presence = ServerPresence(
            client,
            namespace=config.namespace,
            deployment=config.server_deployment,
            watched=config.watch_namespace,
            clock=clock,
        )
        notifier = _notifier(
            config,
            client,
            jobs=caches[DIJOBS],
            informers=informers,
            check_lease=leadership.check,
            clock=clock,
            metrics=metrics,
        )
        writers = Writers(monotonic=clock.monotonic)
        tenants = Tenants(monotonic=clock.monotonic)
        # Half of it, so that the poll after the next one at the latest finds what is missing.
        companions = Companions(
            client=client, look_again=config.sync_period / 2, monotonic=clock.monotonic
        )
        scheduling_objects = SchedulingObjects(
            client=client, look_again=config.sync_period / 2, monotonic=clock.monotonic
        )
        reconciler = Reconciler(
            client=client,
            informers=informers,
            executor=Executor(
                client=client,
                writes=informers,
                companions=companions,
                scheduling_objects=scheduling_objects,
                writers=writers,
                tenants=tenants,
                check_lease=leadership.check,
                observer=metrics,
                on_refused=scheduler.refused if scheduler is not None else None,
            ),
            companions=companions,
            scheduling_objects=scheduling_objects,
            status=StatusWriter(
                client=client,
                writes=informers,
                writers=writers,
                tenants=tenants,
                check_lease=leadership.check,
                observer=metrics,
            ),
            emit=recorder.emit,
            specs=read_spec,
            read_pod=read_pod,
            grant=scheduler.grant if scheduler is not None else None,
            aggregator_config=config.aggregator_config,
            settings=Settings(
                service_domain=config.service_domain,
                server_url=config.server_url,
                coordinated_server_url=config.coordinated_server_url,
                token_audience=config.token_audience,
                binding=config.binding,
                high_priority_class=config.high_priority_class,
                companion_kinds=config.companion_kinds,
                notification_targets=frozenset(each.name for each in config.notification_targets),
            ),
            server_ca=server_ca,
            reports_since=presence,
            largest_node_memory=scheduler.largest_node_memory if scheduler else lambda: None,
            kueue=kueue.known,
            clock=clock,
            rng=rng,
            traces=ScalingTraces(traced) if config.traces else None,
            job_secret_key=secret_key,
            dry_run_passed=scheduler.dry_run_passed if scheduler is not None else None,
        )
        runtime = Runtime(
            caches=caches,
            informers=informers,
            queue=queue,
            controller=Controller(
                reconcile=reconciler.reconcile,
                report=reconciler.report,
                queue=queue,
                backoff=KeyedBackoff(minimum=BACKOFF_INITIAL, maximum=BACKOFF_MAXIMUM, rng=rng),
                workers=config.workers,
                loss=loss,
                monotonic=clock.monotonic,
                observer=metrics,
            ),
            recorder=recorder,
            kueue=kueue,
            scope=claim(
                config,
                lease_client,
                timing=claim_timing or ClaimTiming(),
                clock=clock,
                rng=rng,
                loss=loss,
            ),
            leadership=leadership,
            duties={
                **_duties(config, client, clock),
                **job_task_duties(
                    config,
                    client=client,
                    caches=caches,
                    informers=informers,
                    read_pod=read_pod,
                    emit=recorder.emit,
                    wake_reconciler=queue.add_after,
                    check_lease=leadership.check,
                    loss=loss,
                    observer=metrics.task_looks,
                    clock=clock,
                    rng=rng,
                ),
                "server presence": presence.run,
                **({"notifications": notifier.run} if notifier is not None else {}),
                **({"job secrets": secret_key.run} if secret_key is not None else {}),
                **({"server ca": server_ca.run} if server_ca is not None else {}),
                **(scheduler.duties if scheduler is not None else {}),
            },
            supervisor=Supervisor(clock=clock, rng=rng, observer=metrics, loss=loss),
            loss=loss,
            sync_period=config.sync_period,
            clock=clock,
            on_ending=on_ending,
        )
        expose(metrics, queue, caches, leadership)
        job_metrics = metrics.of_jobs(
            Source(
                leads=leadership.holds,
                now=clock.now,
                most=config.job_metrics,
                goodput=scheduler.goodput if scheduler is not None else lambda _key, _uid: None,
            )
        )
        caches[DIJOBS].subscribe(job_metrics.follow)
        for tally in (client.requests, lease_client.requests):
            metrics.requests(tally)
        port = await stack.enter_async_context(
            serve_health(
                address=config.health_bind,
                alive=runtime.stuck,
                ready=runtime.unready,
                begin_metrics=metrics.begin,
                monotonic=clock.monotonic,
            )
        )
        on_serving(port)
        await runtime.run(stop)


def _scheduler(
    config: Config,
    *,
    client: KubeClient,
    caches: Mapping[Resource, WatchCache],
    read_spec: SpecReader,
    wake: Callable[[JobKey, float], None],
    clock: Clock,
    rng: random.Random,
    metrics: Metrics,
) -> Scheduler | None:
    """Return what runs the allocator. Raises PolicyError if the policy cannot be used."""
    if config.policy is None:
        return None
    settings: dict[str, Any] = {"clock": clock.monotonic, "rng": rng}
    return Scheduler(
        policy=load_policy(config.policy, config.policy_arguments),
        forecaster=load_policy(config.policy, config.policy_arguments),
        caches=caches,
        nodes=WatchCache(client, NODES, transform=transform_node, **settings),
        others=WatchCache(
            client,
            PODS,
            label_selector=f"{LABEL_OPERATOR}!={OPERATOR_NAME}",
            transform=transform_other_pod,
            **settings,
        ),
        quotas=follow_quotas(config, client=client, clock=clock, rng=rng),
        read_spec=read_spec,
        wake=wake,
        period=config.scheduling_period,
        kind_label=config.node_kind_label,
        clock=clock,
        observer=metrics,
        needs_dry_runs=True,
    )


def _notifier(
    config: Config,
    client: KubeClient,
    *,
    jobs: WatchCache,
    informers: InformerState,
    check_lease: Callable[[], None],
    clock: Clock,
    metrics: Metrics,
) -> Notifier | None:
    if not config.notification_targets:
        return None
    notifier = Notifier(
        client=client,
        job=informers.job,
        unfinished=informers.unfinished,
        observe=partial(informers.observe, DIJOBS),
        targets=config.notification_targets,
        waiting=config.notification_waiting,
        check_lease=check_lease,
        clock=clock,
        observer=metrics,
    )
    jobs.subscribe(notifier.follow)
    return notifier


def _duties(config: Config, client: KubeClient, clock: Clock) -> Mapping[str, Duty]:
    duties: dict[str, Duty] = {}
    if config.aggregator_template:
        namespace, name = config.aggregator_config
        template = config.aggregator_template
        default = DefaultAggregator(
            client, namespace=namespace, name=name, template=template, clock=clock
        )
        duties["aggregator config"] = default.run
    settings = certificate_settings(config)
    if settings is not None:
        duties["certificates"] = CertificateManager(client, settings=settings, clock=clock).run
    return duties


def _server_ca(
    config: Config, client: KubeClient, informers: InformerState, clock: Clock
) -> ServerAuthorities | None:
    if config.server_ca_secret is None:
        return None
    return ServerAuthorities(
        client,
        namespace=config.namespace,
        secret=config.server_ca_secret,
        on_change=informers.wake_all,
        clock=clock,
    )


def expose(
    metrics: Metrics,
    queue: KeyQueue[JobKey],
    caches: Mapping[Resource, WatchCache],
    leadership: Election | SoleReplica,
) -> None:
    """Register what is read from the parts at each scrape."""
    metrics.gauge("di_operator_queue_length", "Jobs waiting for a worker.", lambda: len(queue))
    metrics.gauge("di_operator_queue_delayed", "Jobs due later.", lambda: queue.delayed)
    metrics.gauge("di_operator_leading", "1 on the leader.", lambda: float(leadership.holds()))
    metrics.jobs(lambda: caches[DIJOBS].tally(INDEX_PHASE))
    for resource, cache in caches.items():
        metrics.cache(resource.plural, cache)


def main() -> None:
    """Entry point: exit code 0 after SIGTERM, 1 when the lease is lost or the end took too long, 2
    for a bad setting."""
    clock = SystemClock()
    # Jitter and names of this replica, nothing secret.
    rng = random.Random()
    try:
        config = load_config(sys.argv[1:], os.environ, random_identity=_identity)
        kube = load_kube_config(config.kubeconfig, clock=clock.monotonic)
    except (SettingsError, KubeConfigError) as error:
        refuse_to_start(OPERATOR_NAME, error)
    configure_logs(config.log_level)
    # Half of the operator's time goes into TLS and sockets, where libuv takes a third less.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(_run(config, kube, clock, rng)))


async def _run(config: Config, kube: KubeConfig, clock: Clock, rng: random.Random) -> int:
    stop = asyncio.Event()
    deadline = ExitDeadline()

    def end() -> None:
        stop.set()
        deadline.start()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    log.info("starting", identity=config.identity, server=kube.server)
    try:
        await operate(
            config=config, kube=kube, clock=clock, rng=rng, stop=stop, on_ending=deadline.start
        )
    except NotLeading as error:
        log.error("exiting", error=str(error))
        return 1
    except PolicyError as error:
        log.error("cannot allocate", error=str(error))
        return 2
    except OSError as error:
        log.error("cannot serve health", error=str(error))
        return 2
    log.info("stopped")
    return 0


def _identity() -> str:
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


if __name__ == "__main__":
    main()
