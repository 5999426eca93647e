"""One reconcile: read, decide, act, write one status, then record events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars

from di_api.queued import queue_of
from di_kube.errors import ApiError, Conflict, NotFound
from di_kube.resources import DIJOBS, PODS
from di_kube.wire import collector_paused
from di_operator.cluster.executor import Executor
from di_operator.cluster.status_writer import StatusWriter
from di_operator.kueue.workload import Workload
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.needs import needs
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import Status
from di_operator.lifecycle.observed.verdict import earliest
from di_operator.lifecycle.policies.kueue_workloads import leftover_steps
from di_operator.lifecycle.policies.reclaim import reclaim, restored_events
from di_operator.lifecycle.policies.reports.reconcile_failure import defect
from di_operator.lifecycle.vocabulary.actions import Delete
from di_operator.lifecycle.vocabulary.conditions import with_aside
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent, Settings
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.lifecycle.write_errors import Fault, NameTaken, gravest, on_error
from di_operator.process.clock import Clock
from di_operator.process.controller import JobKey, Outdated
from di_operator.reconcile.job_reader import READ_AT_ONCE, JobReader, stand_back
from di_operator.reconcile.lost_labels import LostLabels
from di_operator.reconcile.traces import ScalingTraces

log = structlog.get_logger(__name__)

# How often one reconcile decides again when objects changed meanwhile. A client that changes the
# job all the time must not occupy a worker: the key then takes its backoff.
ATTEMPTS = 5
# Seconds; maximum delay before the next decision, so that two writers fall out of step.
RETRY_PAUSE = 0.05
# Seconds until the next reconcile of a job of which a read has shown more than the watch; a watch
# event can start it earlier.
NEXT_READ = 0.5


class Reconciler:
    """Executes the next step of one job; called again for every change and at every resync."""

    def __init__(
        self,
        *,
        reader: JobReader,
        executor: Executor,
        status: StatusWriter,
        emit: Callable[[Mapping[str, Any], JobEvent], None],
        clock: Clock,
        rng: Random,
        traces: ScalingTraces | None = None,
    ) -> None:
        """`emit` records an event on a job; `traces` are of jobs that were scaled, None: no
        traces.
        """
        self._lost_labels = LostLabels(reader, executor)
        self._reader = reader
        self._executor = executor
        self._status = status
        self._emit = emit
        self._clock = clock
        self._rng = rng
        self._traces = traces
        self._reading = asyncio.Lock()

    async def reconcile(self, key: JobKey) -> float | None:
        """Execute what the job needs now; return the delay in seconds until the next reconcile, or
        None.

        Raises:
            NotLeading: the lease was lost.
            Outdated: the job's objects kept changing; try again later.
            ApiError: the API server is unreachable, or the job kept changing; try again later.
        """
        for attempt in range(1, ATTEMPTS + 1):
            job = await self._reader.read_ahead(key)
            if job is None:
                return await self._after_the_job(key)
            if queue_of(job) is not None and self._reader.kueue(key) is None:
                return NEXT_READ
            if self._reading.locked() and not self._reader.has_cheap_spec(job):
                # Large jobs of one user must not occupy all workers.
                return self._rng.uniform(NEXT_READ, 2 * NEXT_READ)
            try:
                with bound_contextvars(**key._asdict(), uid=job["metadata"]["uid"]):
                    requeue_after = await self._step(dict(job), key)
                if not self._lost_labels.is_idle:
                    requeue_after = earliest(requeue_after, self._lost_labels.until_due(key))
                return requeue_after
            except NotFound as error:
                if error.kind != DIJOBS.kind:
                    raise
                self._reader.forget(job["metadata"]["uid"])
                return None
            except Outdated:
                if attempt == ATTEMPTS:
                    raise
            except Conflict:
                # The cached job is behind, and the watch can be slow: read this job now.
                await self._reader.refresh(key, job["metadata"]["uid"])
                if attempt == ATTEMPTS:
                    raise
            await self._clock.sleep(self._rng.uniform(0.0, RETRY_PAUSE))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def report(self, key: JobKey, error: Exception) -> None:
        """Record a reconcile that failed by a defect of the operator, as an event and a condition.

        Raises:
            NotLeading: the lease was lost.
        """
        job = self._reader.job(key)
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
        if not self._reader.has_cheap_spec(job):
            # One at a time, because each further thread delays the event loop more.
            async with self._reading:
                await self._reader.examine(job)
        snapshot, decision = await self._decide(job, key)
        if snapshot.lacks_trial:
            self._reader.have_pods_tried(key)
        if (delay := await self._delay_after_reads(snapshot, decision, key)) is not None:
            return delay
        is_wanted = partial(self._is_as_decided, job, key)
        faults = await self._executor.run(decision.actions, job=key, is_wanted=is_wanted)
        if not is_wanted():
            return 0.0
        acted = bool(decision.actions) and not faults
        if faults:
            fault = gravest(faults)
            log.info("refused", seen=fault.seen.name, times=len(faults), by=_words(fault))
            decision = on_error(snapshot, fault, self._clock.now())
            await self._executor.run(decision.actions, job=key, is_wanted=is_wanted)
        wrote = decision.status is not None and await self._status.write(job, decision.status)
        # The indexes of an unreadable spec are unknown, so its status has not counted them.
        if not (faults or snapshot.is_frozen):
            self._reader.forget_deleted(snapshot.uid, snapshot.deleted)
        self._announce(snapshot, decision, wrote=wrote)
        if self._traces is not None:
            done = len(decision.actions) if acted else 0
            self._traces.reconciled(snapshot, acted=done, began=began, ended=self._clock.now())
        if decision.late_actions:
            kept_up = await self._do_late_actions(snapshot, decision, key, is_wanted=is_wanted)
            if kept_up is not None:
                return 0.0 if wrote else kept_up.requeue_after
            acted = True
        if (acted or wrote) and not decision.is_last:
            # The watch event of our own write does not start a reconcile, and many decisions come
            # in steps: count first, delete next. So reconcile again at once until a decision
            # changes nothing; then the delay that it requests counts.
            return 0.0
        if not (wrote or faults or _deletes_pods(decision)):
            self._note_settled(snapshot, decision)
        return decision.requeue_after

    def _announce(self, snapshot: Snapshot, decision: Decision, *, wrote: bool) -> None:
        """Log a new phase and record events, after the write of the status: an event about a phase
        that was never written would be false.
        """
        if wrote and decision.status is not None:
            _log_phase(snapshot.status, decision.status["phase"])
        for event in decision.events:
            self._emit(snapshot.job, event)

    def _note_settled(self, snapshot: Snapshot, decision: Decision) -> None:
        """Record that a finished job needs no reconcile at the next resync.

        For one whose Service was all that was left, that would be a reconcile of every job a minute
        after its end. A pod can stay for its grace period, or for a finalizer that is reported.
        """
        if snapshot.is_deleted or not snapshot.status.is_finished:
            return
        wait, due = decision.requeue_after, None
        if wait is not None:
            due = self._clock.now() + timedelta(seconds=wait)
        self._reader.record_settled(snapshot.job, due)

    async def _do_late_actions(
        self,
        snapshot: Snapshot,
        decision: Decision,
        key: JobKey,
        *,
        is_wanted: Callable[[], bool],
    ) -> Decision | None:
        """Execute the late actions of a decision; return the decision that a refusal leads to, None
        without a refusal.
        """
        refused = await self._executor.run(decision.late_actions, job=key, is_wanted=is_wanted)
        if not refused:
            return None
        fault = gravest(refused)
        log.info("refused", seen=fault.seen.name, times=len(refused), by=_words(fault))
        answer = on_error(snapshot, fault, self._clock.now())
        for event in answer.events:
            self._emit(snapshot.job, event)
        return answer

    async def _decide(self, job: dict[str, Any], key: JobKey) -> tuple[Snapshot, Decision]:
        """Decide, after reading what the decision needs and no cache has."""
        settings = await self._reader.settings()
        # The temporary objects of one decision about four thousand pods would start the garbage
        # collector again and again, each time over everything that the caches hold.
        with collector_paused():
            snapshot = self._reader.snapshot(job, key)
            needed = needs(snapshot, self._clock.now(), settings)
            if not needed:
                return snapshot, await self._decision(snapshot, settings)
        read = await self._reader.read(job, needed)
        with collector_paused():
            snapshot = self._reader.snapshot(job, key, read)
            return snapshot, await self._decision(snapshot, settings)

    async def _decision(self, snapshot: Snapshot, settings: Settings) -> Decision:
        if len(snapshot.slots) > READ_AT_ONCE:
            await stand_back()
        return decide(snapshot, self._clock.now(), settings)

    async def _after_the_job(self, key: JobKey) -> float | None:
        """Release the quota of a deleted job, once its pods are gone."""
        kueue = self._reader.kueue(key)
        if kueue is None or not kueue.workloads:
            return None
        if await self._lost_labels.restore(key) is not None:
            return 0.0
        actions = leftover_steps(map(Workload.read, kueue.workloads), self._reader.pods(key))
        await self._executor.run(actions, job=key, is_wanted=lambda: self._reader.job(key) is None)
        return self._lost_labels.until_due(key)

    async def _delay_after_reads(
        self, snapshot: Snapshot, decision: Decision, key: JobKey
    ) -> float | None:
        """Read what a decision relies on and the caches may lack. Return the delay until the next
        decision if they did, None if this one is to be executed.
        """
        # A pod that only lost its labels still uses its quota and its name.
        restored = await self._lost_labels.restore(key)
        if restored is not None:
            for event in restored_events(restored):
                self._emit(snapshot.job, event)
            return 0.0
        # The first objects of a new job are not worth a read: it existed a moment ago.
        is_again = snapshot.status.phase is not None and decision.creates
        if is_again and not await self._is_current(snapshot.job, key):
            return 0.0
        if decision.from_absence and not await self._are_gone(snapshot, key):
            return NEXT_READ
        return None

    def _is_as_decided(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Return whether the cached job still has the identity, spec and deletion state that the
        decision was made for.

        Creating four thousand pods takes a minute, in which the job can be deleted or get another
        spec.
        """
        now = self._reader.job(key)
        return now is not None and _wanted_by_user(now) == _wanted_by_user(job)

    async def _is_current(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Return whether the job is unchanged since the decision; otherwise the next decision knows
        better.

        The watch of jobs can lag behind that of pods. A deleted job would then look like one that
        lost its pods, and get new ones.
        """
        seen = job["metadata"]["resourceVersion"]
        await self._reader.refresh(key, job["metadata"]["uid"])
        now = self._reader.job(key)
        return now is not None and now["metadata"]["resourceVersion"] == seen

    async def _are_gone(self, snapshot: Snapshot, key: JobKey) -> bool:
        """Return whether the pods that are not in the cache do not exist; repairs the labels of
        those that do.
        """
        missing = {slot.name: slot for slot in snapshot.missing}
        found = await self._reader.missing_pods(snapshot, key)
        marks = [
            action
            for pod in found
            if (action := reclaim(snapshot, PODS, pod, missing[pod["metadata"]["name"]]))
            is not None
        ]
        there = any(snapshot.is_own(pod) for pod in found)
        is_wanted = partial(self._is_as_decided, snapshot.job, key)
        await self._executor.run(marks, job=key, is_wanted=is_wanted)
        for event in restored_events(marks):
            self._emit(snapshot.job, event)
        return not there and not marks


def _wanted_by_user(job: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the parts of a job that its user decides: its UID, its spec, and whether it is being
    deleted.
    """
    metadata = job["metadata"]
    return metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp")


def _deletes_pods(decision: Decision) -> bool:
    return any(isinstance(each, Delete) and each.resource == PODS for each in decision.actions)


def _words(fault: Fault) -> str:
    return fault.words if isinstance(fault, NameTaken) else fault.message


def _log_phase(before: Status, after: str) -> None:
    if before.phase != after:
        log.info("phase", before=before.phase, after=after)
