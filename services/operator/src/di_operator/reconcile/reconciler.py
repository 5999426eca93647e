"""One reconcile: read, decide, act, write one status, then tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Protocol

import structlog
from structlog.contextvars import bound_contextvars

from di_api.names import LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_api.queued import queue_of
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Conflict, NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, PODS, Resource
from di_kube.wire import collector_paused
from di_operator.cluster.companions import Companions
from di_operator.cluster.executor import Executor
from di_operator.cluster.executor import Writes as ExecutorWrites
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.cluster.status_writer import StatusWriter
from di_operator.kueue.queueing import Kueue
from di_operator.kueue.workload import Workload
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.observed.pods import PodReader
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.specs import SPEC_BYTES, SpecCache
from di_operator.lifecycle.observed.status import Status
from di_operator.lifecycle.policies.companions import wanted_companions
from di_operator.lifecycle.policies.kueue_workloads import leftover_steps
from di_operator.lifecycle.policies.reclaim import reclaim, restored_events
from di_operator.lifecycle.policies.reports.reconcile_failure import defect
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.conditions import with_aside
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent, Settings
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.lifecycle.write_errors import Fault, NameTaken, gravest, on_error
from di_operator.process.clock import Clock
from di_operator.process.concurrency import spread
from di_operator.process.controller import JobKey, Outdated
from di_operator.reconcile.traces import ScalingTraces

log = structlog.get_logger(__name__)

# How often a decision is made anew within one reconcile when objects changed under it. Another
# writer who touches the job all the time must not hold a worker: the key then takes its back-off.
ATTEMPTS = 5
# Seconds; the longest pause before deciding again, so that two writers fall out of step.
RETRY_PAUSE = 0.05
# Pods that are read one by one before they are counted for lost. Of more than these at once the
# rest is met when they are made again.
LOOKED_FOR = 64
# Seconds until a look at a job of which a read has shown more than the watch; the watch may bring
# it earlier.
NEXT_LOOK = 0.5
# Pods read before others get their turn; some milliseconds.
READ_AT_ONCE = 512


class InformerState(ExecutorWrites, Protocol):
    """What is known of the cluster, own writes included."""

    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        """Return the job of that name, None if there is none; `dict` of it reads all at once."""
        ...

    def pods(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the pods of the job, and of others under its name."""
        ...

    def services(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the Services of the job, and of others under its name."""
        ...

    def configmaps(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the ConfigMaps of the job, and of others under its name."""
        ...

    def recognise(self, resource: Resource, body: dict[str, Any]) -> Mapping[str, Any]:
        """Return what is kept of an object that a list showed."""
        ...

    def observe_all(
        self, resource: Resource, bodies: Iterable[Mapping[str, Any]], version: str
    ) -> bool:
        """Take in what a list of some objects showed; False if more than that is known."""
        ...


class Reconciler:
    """Brings one job one step further; called again for every change and at every poll."""

    def __init__(
        self,
        *,
        client: KubeClient,
        informers: InformerState,
        executor: Executor,
        companions: Companions,
        scheduling_objects: SchedulingObjects,
        status: StatusWriter,
        emit: Callable[[Mapping[str, Any], JobEvent], None],
        specs: SpecCache,
        read_pod: PodReader,
        grant: Callable[[Mapping[str, Any]], Grant] | None,
        aggregator_config: tuple[str, str],
        settings: Settings,
        server_ca: Callable[[], str] | None,
        reports_since: Callable[[], datetime | None],
        largest_node_memory: Callable[[], Decimal | None],
        kueue: Callable[[JobKey], Kueue | None],
        clock: Clock,
        rng: Random,
        traces: ScalingTraces | None = None,
        job_secret_key: Callable[[], Awaitable[bytes | None]] | None = None,
        dry_run_passed: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            read_pod: remembers the pods of the largest job at least.
            grant: the allocator's word on a job; None: there is no allocator.
            aggregator_config: namespace and name of the AggregatorConfig.
            settings: all but `server_ca` and `job_secret_key`.
            server_ca: the authorities that pods are told now; None: they are told none.
            reports_since: the moment since when reports of jobs can come; None: they cannot.
            largest_node_memory: bytes that the largest node has for pods; None: not known.
            traces: of jobs that were scaled; None: there are none.
            job_secret_key: waits for the key of jobs' secrets, None if it cannot be read; None:
                jobs have no secret.
            dry_run_passed: called with a job whose pods the API server would create.
            kueue: what is known of Kueue and a job's Workloads; None: nothing yet.
        """
        self._dry_run_passed = dry_run_passed
        self._traces = traces
        self._job_secret_key = job_secret_key
        self._client = client
        self._informers = informers
        self._executor = executor
        self._companions = companions
        self._scheduling_objects = scheduling_objects
        self._status = status
        self._emit = emit
        self._specs = specs
        self._reading = asyncio.Lock()
        self._read_pod = read_pod
        self._grant = grant
        self._aggregator_config = aggregator_config
        self._settings = settings
        self._server_ca = server_ca
        self._reports_since = reports_since
        self._largest_node_memory = largest_node_memory
        self._kueue = kueue
        self._clock = clock
        self._rng = rng

    async def reconcile(self, key: JobKey) -> float | None:
        """Do what is to be done for the job now; returns when to look again, in seconds.

        Raises:
            NotLeading: the lease was lost.
            Outdated: what belongs to the job kept changing; try again later.
            ApiError: the API server is away, or the job kept changing; try again later.
        """
        for attempt in range(1, ATTEMPTS + 1):
            await self._read_ahead(key)
            job = self._informers.job(key)
            if job is None:
                await self._after_the_job(key)
                return None
            if queue_of(job) is not None and self._kueue(key) is None:
                return NEXT_LOOK
            if self._reading.locked() and not self._is_read(job):
                # Heavy jobs of one user must not hold all workers.
                return self._rng.uniform(NEXT_LOOK, 2 * NEXT_LOOK)
            try:
                with bound_contextvars(**key._asdict(), uid=job["metadata"]["uid"]):
                    return await self._step(dict(job), key)
            except NotFound as error:
                if error.kind != DIJOBS.kind:
                    raise
                self._informers.forget(job["metadata"]["uid"])
                return None
            except Outdated:
                if attempt == ATTEMPTS:
                    raise
            except Conflict:
                # Our read is behind, and the watch may be slow: read this one job now.
                await self._refresh(key, job["metadata"]["uid"])
                if attempt == ATTEMPTS:
                    raise
            await self._clock.sleep(self._rng.uniform(0.0, RETRY_PAUSE))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def report(self, key: JobKey, error: Exception) -> None:
        """Tell of a reconcile that failed by a mistake of ours: an event and a condition.

        Raises:
            NotLeading: the lease was lost.
        """
        job = self._informers.job(key)
        if job is None:
            return
        aside = defect(error)
        self._emit(job, JobEvent(reason=Problem.RECONCILE_FAILED, message=aside.message))
        status = Status.read(job.get("status"))
        if status.is_finished or not aside.is_news(status.conditions):
            return
        generation = job["metadata"].get("generation") or 0
        told = with_aside(status.conditions, aside, generation=generation, now=self._clock.now())
        try:
            await self._status.write(job, {**status.raw, "conditions": told})
        except ApiError as refusal:
            log.warning("defect not told", **key._asdict(), error=str(refusal))

    async def _step(self, job: dict[str, Any], key: JobKey) -> float | None:
        began = self._clock.now()
        if not self._is_read(job):
            async with self._reading:
                await asyncio.to_thread(self._specs.examine, job)
        snapshot, decision = await self._look_and_decide(job, key)
        # The first objects of a new job are not worth a read: it was there a moment ago.
        is_again = snapshot.status.phase is not None and decision.creates
        if is_again and not await self._is_current(job, key):
            return 0.0
        if decision.from_absence and not await self._are_gone(snapshot, key):
            return NEXT_LOOK
        is_wanted = partial(self._is_as_decided, job, key)
        faults = await self._executor.run(decision.actions, job=key, is_wanted=is_wanted)
        if not is_wanted():
            return 0.0
        acted = bool(decision.actions) and not faults
        if acted and self._dry_run_passed is not None and decision.has_dry_runs:
            self._dry_run_passed(job)
        if faults:
            fault = gravest(faults)
            log.info("refused", seen=fault.seen.name, times=len(faults), by=_words(fault))
            decision = on_error(snapshot, fault, self._clock.now())
            await self._executor.run(decision.actions, job=key, is_wanted=is_wanted)
        wrote = decision.status is not None and await self._status.write(job, decision.status)
        if wrote and decision.status is not None:
            _log_phase(snapshot.status, decision.status["phase"])
        # Only now: an event about a phase that was never written would be a lie.
        for event in decision.events:
            self._emit(job, event)
        if self._traces is not None:
            done = len(decision.actions) if acted else 0
            self._traces.reconciled(snapshot, acted=done, began=began, ended=self._clock.now())
        if decision.upkeep:
            kept_up = await self._keep_up(snapshot, decision, key, is_wanted=is_wanted)
            if kept_up is not None:
                return 0.0 if wrote else kept_up.requeue_after
            acted = True
        if acted or wrote:
            # What was written does not wake us when the watch brings it (it is no news), and many
            # decisions come in steps: count first, delete next. So look again at once, until a
            # decision wants nothing; then the delay it asks for is the one that counts.
            return 0.0
        return decision.requeue_after

    def _is_read(self, job: Mapping[str, Any]) -> bool:
        """Whether nothing about a job's spec takes long.

        A heavy one is judged beside the event loop, which others need meanwhile: one at a time,
        for each thread more would have the loop wait longer for its turn.
        """
        return SPEC_BYTES not in job or self._specs.known(job) is not None

    async def _keep_up(
        self,
        snapshot: Snapshot,
        decision: Decision,
        key: JobKey,
        *,
        is_wanted: Callable[[], bool],
    ) -> Decision | None:
        """Do what comes last; returns what a refusal leads to, and None if there was none."""
        refused = await self._executor.run(decision.upkeep, job=key, is_wanted=is_wanted)
        if not refused:
            return None
        fault = gravest(refused)
        log.info("refused", seen=fault.seen.name, times=len(refused), by=_words(fault))
        answer = on_error(snapshot, fault, self._clock.now())
        for event in answer.events:
            self._emit(snapshot.job, event)
        return answer

    async def _look_and_decide(self, job: dict[str, Any], key: JobKey) -> tuple[Snapshot, Decision]:
        """Decide, after reading whatever nobody watches and the decision needs."""
        snapshot, decision = await self._decide(job, key)
        aggregator = None
        if decision.lacks_template:
            aggregator = await self._read_aggregator()
            snapshot, decision = await self._decide(job, key, aggregator=aggregator)
        if decision.lacks_companions:
            wanted = wanted_companions(snapshot, self._settings)
            seen = await self._companions.look(job, wanted)
            snapshot, decision = await self._decide(
                job, key, aggregator=aggregator, companions=seen
            )
        if decision.looks_for:
            beside = await self._scheduling_objects.look(job, decision.looks_for)
            snapshot, decision = await self._decide(
                job,
                key,
                aggregator=aggregator,
                companions=snapshot.companions,
                scheduling_objects=beside,
            )
        return snapshot, decision

    async def _decide(
        self,
        job: dict[str, Any],
        key: JobKey,
        *,
        aggregator: Mapping[str, Any] | None = None,
        companions: Mapping[int, Mapping[str, Any]] | None = None,
        scheduling_objects: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> tuple[Snapshot, Decision]:
        secret_key = None if self._job_secret_key is None else await self._job_secret_key()
        # What is made for one decision about four thousand pods would set the collector going
        # again and again, each time over all that the caches hold.
        with collector_paused():
            snapshot = read_snapshot(
                job,
                self._informers.pods(key),
                self._informers.services(key),
                self._informers.configmaps(key),
                read=self._specs.examine,
                read_pod=self._read_pod,
                grant=self._grant(job) if self._grant is not None else None,
                aggregator=aggregator,
                reports_since=self._reports_since(),
                largest_node_memory=self._largest_node_memory(),
                notification_targets=self._settings.notification_targets,
                companions=companions if companions is not None else self._companions.known(job),
                scheduling_objects=scheduling_objects
                if scheduling_objects is not None
                else self._scheduling_objects.known(job),
                kueue=self._kueue(key),
            )
            if len(snapshot.slots) > READ_AT_ONCE:
                await _stand_back()
            server_ca = self._server_ca() if self._server_ca is not None else None
            settings = replace(self._settings, server_ca=server_ca, job_secret_key=secret_key)
            return snapshot, decide(snapshot, self._clock.now(), settings)

    async def _after_the_job(self, key: JobKey) -> None:
        """Give back the quota of a job that is gone, once its pods are."""
        kueue = self._kueue(key)
        if kueue is None or not kueue.workloads:
            return
        actions = leftover_steps(
            map(Workload.read, kueue.workloads), map(self._read_pod, self._informers.pods(key))
        )
        await self._executor.run(
            actions, job=key, is_wanted=lambda: self._informers.job(key) is None
        )

    async def _read_ahead(self, key: JobKey) -> None:
        """Read the pods of a large job in parts, so that others get their turn in between.

        What is new since then is read with the snapshot.
        """
        for count, pod in enumerate(self._informers.pods(key), 1):
            self._read_pod(pod)
            if count % READ_AT_ONCE == 0:
                await _stand_back()

    async def _read_aggregator(self) -> Mapping[str, Any] | None:
        """Read the template of aggregators, for the few moments when one is made."""
        namespace, name = self._aggregator_config
        try:
            found = await self._client.get(AGGREGATOR_CONFIGS, name, namespace)
        except NotFound:
            return None
        template: Mapping[str, Any] = found["spec"]["aggregator"]["template"]
        return template

    def _is_as_decided(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Tell whether, as far as is known, the job still wants what was decided for it.

        Making four thousand pods takes a minute, in which it may be deleted or get another spec.
        """
        now = self._informers.job(key)
        return now is not None and _wish(now) == _wish(job)

    async def _is_current(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Tell whether the job is as it was decided from; else the next decision knows better.

        The watch of jobs may lag behind that of pods. A job that was deleted would then be taken
        for one that lost its pods, and get new ones.
        """
        seen = job["metadata"]["resourceVersion"]
        await self._refresh(key, job["metadata"]["uid"])
        now = self._informers.job(key)
        return now is not None and now["metadata"]["resourceVersion"] == seen

    async def _are_gone(self, snapshot: Snapshot, key: JobKey) -> bool:
        """Tell whether the pods that are not seen do not exist; takes in those that do.

        Some may be out of sight of every watch, because somebody took their labels or their owner
        away. They get them back.
        """
        missing = {slot.name: slot for slot in snapshot.missing}
        listed, version = await self._client.list(
            PODS,
            key.namespace,
            label_selector=f"{LABEL_JOB}={key.name}",
            # Whole, as it may have to be put right; the others are thousands, and known.
            transform=lambda pod: pod if pod["metadata"]["name"] in missing else {},
        )
        listed = [pod for pod in listed if pod]
        names = {pod["metadata"]["name"] for pod in listed}
        unlisted = [name for name in missing if name not in names]
        found = [*listed, *await self._read_pods(unlisted[:LOOKED_FOR], key.namespace)]
        marks = [
            action
            for pod in found
            if (action := reclaim(snapshot, PODS, pod, missing[pod["metadata"]["name"]]))
            is not None
        ]
        there = any(snapshot.is_own(pod) for pod in found)
        # The cache keeps what the watch selects, and nothing that the watch would never bury.
        seen = [
            self._informers.recognise(PODS, pod)
            for pod in listed
            if pod["metadata"]["labels"].get(LABEL_OPERATOR) == OPERATOR_NAME
        ]
        self._informers.observe_all(PODS, seen, version)
        is_wanted = partial(self._is_as_decided, snapshot.job, key)
        await self._executor.run(marks, job=key, is_wanted=is_wanted)
        for event in restored_events(marks):
            self._emit(snapshot.job, event)
        return not there and not marks

    async def _read_pods(self, names: Sequence[str], namespace: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        errors: list[ApiError] = []

        async def read(name: str) -> bool:
            try:
                found.append(await self._client.get(PODS, name, namespace))
            except NotFound:
                pass
            except ApiError as error:
                errors.append(error)
            return not errors

        await spread(names, read)
        if errors:
            raise errors[0]
        return found

    async def _refresh(self, key: JobKey, uid: str) -> None:
        try:
            job = await self._client.get(DIJOBS, key.name, key.namespace)
        except NotFound:
            self._informers.forget(uid)
        else:
            self._informers.observe(DIJOBS, job)


async def _stand_back() -> None:
    """Let everybody have a turn who became ready meanwhile: they queue behind the first pass."""
    for _ in range(2):
        await asyncio.sleep(0)


def _wish(job: Mapping[str, Any]) -> tuple[object, ...]:
    """What of a job its user decides: which one it is, its spec, and whether it is to go."""
    metadata = job["metadata"]
    return metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp")


def _words(fault: Fault) -> str:
    return fault.words if isinstance(fault, NameTaken) else fault.message


def _log_phase(before: Status, after: str) -> None:
    if before.phase != after:
        log.info("phase", before=before.phase, after=after)
