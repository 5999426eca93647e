"""Builds the parts of the operator, grouped by purpose."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_api.spec import MAX_PODS
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.resources import DIJOBS, NODES, PODS, Resource
from di_operator.allocator.policies.registry import load_policy
from di_operator.allocator_loop import Scheduler
from di_operator.certificates.manager import CertificateManager, certificate_settings
from di_operator.certificates.pod_authorities import ServerAuthorities
from di_operator.cluster.companions import Companions
from di_operator.cluster.default_aggregator import DefaultAggregator
from di_operator.cluster.deleted_pods import DeletedPods
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.cluster.executor import Executor
from di_operator.cluster.informer_state import (
    INDEX_PHASE,
    InformerState,
    transform_node,
    transform_other_pod,
)
from di_operator.cluster.kueue_watch import KueueWatch, NoKueue, follow_kueue
from di_operator.cluster.quotas import follow_quotas
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.cluster.server_presence import ServerPresence
from di_operator.cluster.status_writer import StatusWriter
from di_operator.cluster.suspect_taints import SuspectTaints
from di_operator.cluster.unlabelled_pods import UnlabelledPods
from di_operator.cluster.watch_caches import WATCH_LIMITS, watch_caches
from di_operator.config import Config
from di_operator.job_secrets.key import SecretKey
from di_operator.job_tasks.duties import job_task_duties
from di_operator.leadership.election import Election, SoleReplica
from di_operator.lifecycle.observed.pod_cache import PodCache
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.observed.suspect_nodes import SuspectNodes
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.metrics.jobs.collect import Source
from di_operator.metrics.metrics import Metrics
from di_operator.process.clock import Clock
from di_operator.process.concurrency import Tenants, Writers
from di_operator.process.controller import Controller, JobKey, controller_of, job_queue
from di_operator.process.lease_state import Loss
from di_operator.process.queue import KeyedBackoff, KeyQueue
from di_operator.process.supervision import Duty
from di_operator.reconcile.job_reader import JobReader, KnownElsewhere, Unwatched
from di_operator.reconcile.pod_trials import BACKOFF, WORKERS, PodTrials, Trials
from di_operator.reconcile.reconciler import Reconciler
from di_operator.reconcile.traces import ScalingTraces
from di_operator.sweeps.duties import sweep_duties
from di_service.spans import Tracing

if TYPE_CHECKING:
    from di_operator.notifications.notifier import Notifier

# Seconds. When the API server returns after a long outage, every job has to be up to date within
# half a minute: the watches return first, then the postponed jobs, some in several steps.
BACKOFF_INITIAL = 0.1
BACKOFF_MAXIMUM = 15.0
# Number of remembered parsed specs; a job in a phase that changes is reconciled again within
# milliseconds.
REMEMBERED_SPECS = 10_000
REMEMBERED_PODS = 2 * MAX_PODS


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The inputs of most parts."""

    config: Config
    client: KubeClient
    clock: Clock
    rng: random.Random
    loss: Loss
    leadership: Election | SoleReplica
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The caches, and the queue of jobs to reconcile."""

    queue: KeyQueue[JobKey]
    caches: Mapping[Resource, WatchCache]
    informers: InformerState
    deleted_pods: DeletedPods
    unlabelled_pods: UnlabelledPods
    read_pod: PodCache
    specs: SpecCache
    kueue: KueueWatch | NoKueue
    polled: list[WatchCache]
    """The caches of duties, which polls compare with the API server, too."""
    recorder: EventRecorder
    trials: Trials
    suspects: Callable[[], Mapping[str, int]]
    """Returns the nodes that several jobs avoid, each with the number of these jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The parts beside the reconciler, as far as the configuration enables them."""

    scheduler: Scheduler | None
    server_ca: ServerAuthorities | None
    secret_key: SecretKey | None
    presence: ServerPresence
    notifier: Notifier | None


def observe(base: Base) -> Observed:
    """Build the caches and the state derived from them."""
    config, client, clock, rng = base.config, base.client, base.clock, base.rng
    queue = job_queue(workers=config.workers)
    caches = watch_caches(config, client, clock, rng)
    read_pod = PodCache(size=REMEMBERED_PODS)
    informers = InformerState(caches=caches, wake=queue.add_after, read_pod=read_pod)
    suspects = SuspectNodes()
    caches[DIJOBS].subscribe(suspects.follow)
    deleted_pods = DeletedPods(caches[DIJOBS])
    caches[PODS].subscribe(deleted_pods.follow)
    unlabelled_pods = UnlabelledPods(monotonic=clock.monotonic)
    caches[PODS].subscribe(unlabelled_pods.follow)
    return Observed(
        queue=queue,
        caches=caches,
        informers=informers,
        deleted_pods=deleted_pods,
        unlabelled_pods=unlabelled_pods,
        read_pod=read_pod,
        specs=SpecCache(size=REMEMBERED_SPECS),
        kueue=follow_kueue(
            config, client=client, informers=informers, limits=WATCH_LIMITS, clock=clock, rng=rng
        ),
        polled=[],
        recorder=EventRecorder(
            client=client, clock=clock, instance=config.identity, observer=base.metrics
        ),
        trials=Trials(monotonic=clock.monotonic),
        suspects=lambda: suspects.jobs(clock.now()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The readers of the reconciler, with what they remember beside the caches."""

    companions: Companions
    scheduling_objects: SchedulingObjects
    reader: JobReader


def beside(base: Base, seen: Observed) -> Beside:
    """Build the parts beside the reconciler. Raises PolicyError if the policy cannot be used."""
    config, client, clock = base.config, base.client, base.clock
    server_ca = secret_key = None
    # The allocator's watches subscribe first, so that it gets events before others do.
    scheduler = _scheduler(base, seen)
    if config.server_ca_secret is not None:
        server_ca = ServerAuthorities(
            client,
            namespace=config.namespace,
            secret=config.server_ca_secret,
            on_change=seen.informers.wake_all,
            clock=clock,
        )
    if config.job_secrets is not None:
        secret_key = SecretKey(
            client, namespace=config.namespace, secret=config.job_secrets, clock=clock
        )
    return Beside(
        scheduler=scheduler,
        server_ca=server_ca,
        secret_key=secret_key,
        presence=ServerPresence(
            client,
            namespace=config.namespace,
            deployment=config.server_deployment,
            watched=config.watch_namespace,
            clock=clock,
        ),
        notifier=_notifier(base, seen),
    )


def controller(
    base: Base, seen: Observed, others: Beside, reading: Reading, traced: Tracing
) -> Controller:
    """Build the workers and the reconciler."""
    reconciler = _reconciler(base, seen, others, reading, traced)
    return Controller(
        reconcile=reconciler.reconcile,
        report=reconciler.report,
        queue=seen.queue,
        backoff=KeyedBackoff(minimum=BACKOFF_INITIAL, maximum=BACKOFF_MAXIMUM, rng=base.rng),
        workers=base.config.workers,
        loss=base.loss,
        monotonic=base.clock.monotonic,
        observer=base.metrics,
    )


def duties(base: Base, seen: Observed, others: Beside, reading: Reading) -> Mapping[str, Duty]:
    """Return the parts beside the reconciler that only the leader runs, by name."""
    config, client, clock = base.config, base.client, base.clock
    found: dict[str, Duty] = {}
    if config.aggregator_template:
        namespace, name = config.aggregator_config
        template = config.aggregator_template
        default = DefaultAggregator(
            client, namespace=namespace, name=name, template=template, clock=clock
        )
        found["aggregator config"] = default.run
    if config.suspect_taint_percent:
        found["suspect taints"] = SuspectTaints(
            client, suspects=seen.suspects, most_percent=config.suspect_taint_percent, clock=clock
        ).run
    settings = certificate_settings(config)
    if settings is not None:
        found["certificates"] = CertificateManager(client, settings=settings, clock=clock).run
    found |= job_task_duties(
        config,
        client=client,
        caches=seen.caches,
        informers=seen.informers,
        read_pod=seen.read_pod,
        emit=seen.recorder.emit,
        check_lease=base.leadership.check,
        loss=base.loss,
        observer=base.metrics.task_looks,
        clock=clock,
        rng=base.rng,
        poll=seen.polled.append,
    )
    found |= sweep_duties(
        config,
        client=client,
        caches=seen.caches,
        informers=seen.informers,
        check_lease=base.leadership.check,
        loss=base.loss,
        observer=base.metrics.sweeps,
        clock=clock,
        rng=base.rng,
        poll=seen.polled.append,
    )
    found["pod trials"] = _pod_trials(base, seen, reading).run
    found["server presence"] = others.presence.run
    if others.notifier is not None:
        found["notifications"] = others.notifier.run
    if others.secret_key is not None:
        found["job secrets"] = others.secret_key.run
    if others.server_ca is not None:
        found["server ca"] = others.server_ca.run
    if others.scheduler is not None:
        found |= others.scheduler.duties
    return found


def expose(
    metrics: Metrics,
    queue: KeyQueue[JobKey],
    caches: Mapping[Resource, WatchCache],
    leadership: Election | SoleReplica,
    suspects: Callable[[], Mapping[str, int]],
) -> None:
    """Register the gauges that are read from the parts at each scrape."""
    metrics.gauge("di_operator_queue_length", "Jobs waiting for a worker.", lambda: len(queue))
    metrics.gauge("di_operator_queue_delayed", "Jobs due later.", lambda: queue.delayed)
    metrics.gauge("di_operator_leading", "1 on the leader.", lambda: float(leadership.holds()))
    metrics.gauge(
        "di_operator_suspect_nodes",
        "Nodes that several jobs avoid after failures or checks, on the leader.",
        lambda: float(len(suspects()) if leadership.holds() else 0),
    )
    metrics.jobs(lambda: caches[DIJOBS].tally(INDEX_PHASE))
    for resource, cache in caches.items():
        metrics.cache(resource.plural, cache)


def expose_jobs(base: Base, seen: Observed, scheduler: Scheduler | None) -> None:
    """Register the metrics of single jobs."""
    job_metrics = base.metrics.of_jobs(
        Source(
            leads=base.leadership.holds,
            now=base.clock.now,
            most=base.config.job_metrics,
            goodput=scheduler.goodput if scheduler is not None else lambda _key, _uid: None,
        )
    )
    seen.caches[DIJOBS].subscribe(job_metrics.follow)


def reading(base: Base, seen: Observed, others: Beside) -> Reading:
    """Build the readers of jobs and their objects."""
    config, scheduler = base.config, others.scheduler
    # Half of it, so that the second resync at the latest finds what is missing.
    kwargs: dict[str, Any] = {
        "client": base.client,
        "reread_seconds": config.sync_period / 2,
        "monotonic": base.clock.monotonic,
    }
    companions, scheduling_objects = Companions(**kwargs), SchedulingObjects(**kwargs)
    return Reading(
        companions=companions,
        scheduling_objects=scheduling_objects,
        reader=JobReader(
            client=base.client,
            informers=seen.informers,
            known=KnownElsewhere(
                grant=scheduler.grant if scheduler is not None else None,
                reports_since=others.presence,
                largest_node_memory=scheduler.largest_node_memory if scheduler else lambda: None,
                nodes=scheduler.node_names if scheduler else lambda: None,
                suspect_nodes=seen.suspects,
                could_run=scheduler.could_run if scheduler else lambda _: False,
                kueue=seen.kueue.known,
                deleted_pods=seen.deleted_pods.of_job,
                forget_deleted=seen.deleted_pods.forget,
                unlabelled_pods=seen.unlabelled_pods,
                trial=seen.trials.known,
                try_pods=seen.trials.ask,
                server_ca=others.server_ca,
                job_secret_key=others.secret_key,
            ),
            unwatched=Unwatched(
                companions=companions,
                scheduling_objects=scheduling_objects,
                aggregator_config=config.aggregator_config,
            ),
            specs=seen.specs,
            read_pod=seen.read_pod,
            settings=_settings(config),
        ),
    )


def _pod_trials(base: Base, seen: Observed, reading: Reading) -> Controller:
    trials = PodTrials(
        client=base.client,
        reader=reading.reader,
        trials=seen.trials,
        wake_reconciler=seen.queue.add_after,
        observer=base.metrics,
    )
    return controller_of(
        trials,
        queue=seen.trials.queue,
        workers=WORKERS,
        loss=base.loss,
        clock=base.clock,
        rng=base.rng,
        observer=base.metrics.pod_trials,
        backoff=BACKOFF,
    )


def _reconciler(
    base: Base, seen: Observed, others: Beside, reading: Reading, traced: Tracing
) -> Reconciler:
    config, scheduler = base.config, others.scheduler
    writing: dict[str, Any] = {
        "client": base.client,
        "writes": seen.informers,
        "writers": Writers(monotonic=base.clock.monotonic),
        "tenants": Tenants(monotonic=base.clock.monotonic),
        "check_lease": base.leadership.check,
        "observer": base.metrics,
    }
    return Reconciler(
        reader=reading.reader,
        executor=Executor(
            **writing,
            companions=reading.companions,
            scheduling_objects=reading.scheduling_objects,
            on_refused=scheduler.refused if scheduler is not None else None,
            on_dry_run_passed=scheduler.dry_run_passed if scheduler is not None else None,
        ),
        status=StatusWriter(**writing),
        emit=seen.recorder.emit,
        clock=base.clock,
        rng=base.rng,
        traces=ScalingTraces(traced) if config.traces else None,
    )


def _settings(config: Config) -> Settings:
    return Settings(
        service_domain=config.service_domain,
        server_url=config.server_url,
        coordinated_server_url=config.coordinated_server_url,
        token_audience=config.token_audience,
        binding=config.binding,
        high_priority_class=config.high_priority_class,
        companion_kinds=config.companion_kinds,
        notification_targets=frozenset(each.name for each in config.notification_targets),
        suspend_idle_jobs=config.suspend_idle_jobs,
        scale_down_idle_jobs=config.scale_down_idle_jobs,
    )


def _scheduler(base: Base, seen: Observed) -> Scheduler | None:
    config, client, clock, rng = base.config, base.client, base.clock, base.rng
    if config.policy is None:
        return None
    settings: dict[str, Any] = {"clock": clock.monotonic, "rng": rng}
    return Scheduler(
        policy=load_policy(config.policy, config.policy_arguments),
        forecaster=load_policy(config.policy, config.policy_arguments),
        caches=seen.caches,
        nodes=WatchCache(client, NODES, transform=transform_node, **settings),
        others=WatchCache(
            client,
            PODS,
            label_selector=f"{LABEL_OPERATOR}!={OPERATOR_NAME}",
            transform=transform_other_pod,
            **settings,
        ),
        quotas=follow_quotas(config, client=client, clock=clock, rng=rng),
        read_spec=seen.specs,
        wake=seen.queue.add_after,
        period=config.scheduling_period,
        kind_label=config.node_kind_label,
        clock=clock,
        observer=base.metrics,
        needs_dry_runs=True,
        high_priority_class=config.high_priority_class,
    )


def _notifier(base: Base, seen: Observed) -> Notifier | None:
    config = base.config
    if not config.notification_targets:
        return None
    # It imports a general HTTP client, 9 MiB that most operators do not need.
    from di_operator.notifications.notifier import Notifier  # noqa: PLC0415

    notifier = Notifier(
        client=base.client,
        job=seen.informers.job,
        unfinished=seen.informers.unfinished,
        observe=partial(seen.informers.observe, DIJOBS),
        targets=config.notification_targets,
        waiting=config.notification_waiting,
        check_lease=base.leadership.check,
        clock=base.clock,
        observer=base.metrics,
    )
    seen.caches[DIJOBS].subscribe(notifier.follow)
    return notifier
