"""One reconcile: read, decide, act, write one status, then tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
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
from di_operator.lifecycle.policies.kueue_workloads import leftover_steps
from di_operator.lifecycle.policies.reclaim import reclaim, restored_events
from di_operator.lifecycle.policies.reports.reconcile_failure import defect
from di_operator.lifecycle.vocabulary.conditions import with_aside
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent, Settings
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.lifecycle.write_errors import Fault, NameTaken, gravest, on_error
from di_operator.process.clock import Clock
from di_operator.process.controller import JobKey, Outdated
from di_operator.reconcile.job_reader import READ_AT_ONCE, JobReader, stand_back
from di_operator.reconcile.traces import ScalingTraces

log = structlog.get_logger(__name__)

# How often a decision is made anew within one reconcile when objects changed under it. Another
# writer who touches the job all the time must not hold a worker: the key then takes its back-off.
ATTEMPTS = 5
# Seconds; the longest pause before deciding again, so that two writers fall out of step.
RETRY_PAUSE = 0.05
# Seconds until a look at a job of which a read has shown more than the watch; the watch may bring
# it earlier.
NEXT_LOOK = 0.5


class Reconciler:
    """Brings one job one step further; called again for every change and at every poll."""

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
        """`emit` gets a job and an event about it; `traces` are of jobs that were scaled, None:
        there are none."""
        self._reader = reader
        self._executor = executor
        self._status = status
        self._emit = emit
        self._clock = clock
        self._rng = rng
        self._traces = traces
        self._reading = asyncio.Lock()

    async def reconcile(self, key: JobKey) -> float | None:
        """Do what is to be done for the job now; returns when to look again, in seconds.

        Raises:
            NotLeading: the lease was lost.
            Outdated: what belongs to the job kept changing; try again later.
            ApiError: the API server is away, or the job kept changing; try again later.
        """
        for attempt in range(1, ATTEMPTS + 1):
            job = await self._reader.read_ahead(key)
            if job is None:
                await self._after_the_job(key)
                return None
            if queue_of(job) is not None and self._reader.kueue(key) is None:
                return NEXT_LOOK
            if self._reading.locked() and not self._reader.is_read(job):
                # Heavy jobs of one user must not hold all workers.
                return self._rng.uniform(NEXT_LOOK, 2 * NEXT_LOOK)
            try:
                with bound_contextvars(**key._asdict(), uid=job["metadata"]["uid"]):
                    return await self._step(dict(job), key)
            except NotFound as error:
                if error.kind != DIJOBS.kind:
                    raise
                self._reader.forget(job["metadata"]["uid"])
                return None
            except Outdated:
                if attempt == ATTEMPTS:
                    raise
            except Conflict:
                # Our read is behind, and the watch may be slow: read this one job now.
                await self._reader.refresh(key, job["metadata"]["uid"])
                if attempt == ATTEMPTS:
                    raise
            await self._clock.sleep(self._rng.uniform(0.0, RETRY_PAUSE))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def report(self, key: JobKey, error: Exception) -> None:
        """Tell of a reconcile that failed by a mistake of ours: an event and a condition.

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
        if not self._reader.is_read(job):
            # One at a time, for each thread more would have the loop wait longer for its turn.
            async with self._reading:
                await self._reader.examine(job)
        snapshot, decision = await self._decide(job, key)
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

    async def _decide(self, job: dict[str, Any], key: JobKey) -> tuple[Snapshot, Decision]:
        """Decide, after reading whatever nobody watches and the decision needs."""
        settings = await self._reader.settings()
        # What is made for one decision about four thousand pods would set the collector going
        # again and again, each time over all that the caches hold.
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

    async def _after_the_job(self, key: JobKey) -> None:
        """Give back the quota of a job that is gone, once its pods are."""
        kueue = self._reader.kueue(key)
        if kueue is None or not kueue.workloads:
            return
        actions = leftover_steps(map(Workload.read, kueue.workloads), self._reader.pods(key))
        await self._executor.run(actions, job=key, is_wanted=lambda: self._reader.job(key) is None)

    def _is_as_decided(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Tell whether, as far as is known, the job still wants what was decided for it.

        Making four thousand pods takes a minute, in which it may be deleted or get another spec.
        """
        now = self._reader.job(key)
        return now is not None and _wish(now) == _wish(job)

    async def _is_current(self, job: Mapping[str, Any], key: JobKey) -> bool:
        """Tell whether the job is as it was decided from; else the next decision knows better.

        The watch of jobs may lag behind that of pods. A job that was deleted would then be taken
        for one that lost its pods, and get new ones.
        """
        seen = job["metadata"]["resourceVersion"]
        await self._reader.refresh(key, job["metadata"]["uid"])
        now = self._reader.job(key)
        return now is not None and now["metadata"]["resourceVersion"] == seen

    async def _are_gone(self, snapshot: Snapshot, key: JobKey) -> bool:
        """Tell whether the pods that are not seen do not exist; puts back the marks of others."""
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


def _wish(job: Mapping[str, Any]) -> tuple[object, ...]:
    """What of a job its user decides: which one it is, its spec, and whether it is to go."""
    metadata = job["metadata"]
    return metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp")


def _words(fault: Fault) -> str:
    return fault.words if isinstance(fault, NameTaken) else fault.message


def _log_phase(before: Status, after: str) -> None:
    if before.phase != after:
        log.info("phase", before=before.phase, after=after)
