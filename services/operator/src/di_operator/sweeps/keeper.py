"""A part of the leader, beside the reconciler: creates and stops the trials of sweeps.

It remembers nothing: each reconcile decides from the sweep and the jobs of its trials.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import structlog
from structlog.contextvars import bound_contextvars

from di_api.field_error import InvalidSpec, mapping
from di_api.names import ANNOTATION_PARAMETERS, LABEL_SWEEP, OPERATOR_NAME
from di_api.sweeps import (
    Decision,
    SweepSpec,
    Trial,
    decide,
    load_sweep,
    read_trial,
    trial_name,
)
from di_api.timestamps import parse_time
from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from di_kube.resources import DIJOBS, DISWEEPS
from di_operator.lifecycle.observed.status import has_running_pods
from di_operator.process.controller import JobKey, Outdated
from di_operator.sweeps.status import (
    invalid_status,
    is_complete,
    is_trial_of,
    owned_job,
    status_of,
    trial_patch,
)

log = structlog.get_logger(__name__)

SETTLE: Final = 0.2
"""Seconds to collect further events of the jobs of a sweep."""
RETRY: Final = 15.0
"""Seconds until a refused trial is tried again."""
RESYNC: Final = 60.0
"""Seconds between two reconciles of a running sweep: watches can lose events."""
COUNT: Final = 10.0
"""The same for a sweep with a budget of GPU-hours, which no event shows to be used."""

Object = Mapping[str, Any]


class Sweeps:
    """Reconciles one sweep after the other, as a controller requests it."""

    def __init__(
        self,
        *,
        client: KubeClient,
        found: WatchCache,
        jobs: Callable[[JobKey], Iterable[Object]],
        current: asyncio.Event,
        observe_job: Callable[[dict[str, Any]], None],
        wake: Callable[[JobKey, float], None],
        check_lease: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        """Put the parts together.

        Args:
            client: of the API server.
            found: the DISweeps.
            jobs: returns the jobs whose label names a sweep.
            current: set once these jobs were read under the lease of this process.
            observe_job: stores a job as the API server returned it.
            wake: schedules `reconcile` for a sweep after some seconds.
            check_lease: raises NotLeading when the lease is lost.
            now: returns the time.
        """
        self._client = client
        self._found = found
        self._jobs = jobs
        self._current = current
        self._observe_job = observe_job
        self._wake = wake
        self._check_lease = check_lease
        self._now = now

    def follow_sweep(self, _: str, sweep: Object) -> None:
        """Record that a sweep has changed."""
        metadata = sweep["metadata"]
        self._wake(JobKey(metadata["namespace"], metadata["name"]), 0.0)

    def follow_job(self, _: str, job: Object) -> None:
        """Record that a job has changed, which can be a trial."""
        metadata = job["metadata"]
        sweep = mapping(metadata.get("labels")).get(LABEL_SWEEP)
        if isinstance(sweep, str):
            self._wake(JobKey(metadata["namespace"], sweep), SETTLE)

    async def reconcile(self, key: JobKey) -> float | None:
        """Write what one sweep needs now; return the delay in seconds until the next reconcile, or
        None.

        Raises:
            NotLeading: the lease was lost.
            Outdated: objects have changed meanwhile; try again later.
            ApiError: the API server is unreachable; try again later.
        """
        await self._found.synced.wait()
        # A trial that a watch does not show yet would count as deleted.
        await self._current.wait()
        sweep = self._found.get(key.namespace, key.name)
        if sweep is None or sweep["metadata"].get("deletionTimestamp"):
            return None
        with bound_contextvars(**key._asdict(), uid=sweep["metadata"]["uid"]):
            try:
                spec = load_sweep(sweep)
            except InvalidSpec as error:
                if not is_complete(sweep):
                    await self._report(sweep, invalid_status(sweep, error.errors, self._now()), key)
                return None
            if is_complete(sweep):
                await self._stop_late(sweep, spec, key)
                return None
            return await self._advance(sweep, spec, key)

    async def report(self, key: JobKey, error: Exception) -> None:
        """Record a reconcile that failed by a defect of the operator."""
        log.error("a sweep failed", **key._asdict(), error=f"{type(error).__name__}: {error}")

    async def _advance(self, sweep: Object, spec: SweepSpec, key: JobKey) -> float | None:
        now = self._now()
        began = parse_time(sweep["metadata"].get("creationTimestamp")) or now
        elapsed = (now - began).total_seconds()
        jobs = self._trial_jobs(sweep, key)
        trials = _read(jobs.values(), spec, now)
        decision = decide(
            spec,
            trials,
            created=mapping(sweep.get("status")).get("created") or 0,
            elapsed=elapsed,
            ending=sum(_is_ending(job) for job in jobs.values()),
        )
        if decision.is_over and len(trials) < decision.created:
            await self._find_trials(sweep, jobs, key)
        for each in decision.changed:
            await self._change(jobs[trial_name(key.name, each.index)], each, key)
        refused = await self._create(sweep, spec, decision, key)
        jobs = self._trial_jobs(sweep, key)
        status = status_of(
            sweep,
            spec,
            _read(jobs.values(), spec, now),
            lambda index: _parameters(jobs[trial_name(key.name, index)]),
            decision,
            refused=refused,
            now=now,
        )
        await self._report(sweep, status, key)
        if decision.is_over:
            return None
        delays = [RETRY if refused else RESYNC]
        if spec.max_gpu_hours is not None:
            delays.append(COUNT)
        if spec.max_seconds is not None:
            delays.append(max(1.0, spec.max_seconds - elapsed))
        return min(delays)

    async def _find_trials(self, sweep: Object, known: Container[str], key: JobKey) -> None:
        """Raise Outdated if a trial exists that the watch does not show yet.

        Another replica can have created it and counted it in the status of the sweep. It would
        count as deleted, and the sweep as complete, which is for good.
        """
        listed, _ = await self._client.list(
            DIJOBS, key.namespace, label_selector=f"{LABEL_SWEEP}={key.name}"
        )
        found = [job for job in listed if is_trial_of(job, sweep)]
        for job in found:
            self._observe_job(job)
        if unseen := [each for job in found if (each := job["metadata"]["name"]) not in known]:
            raise Outdated(f"trials that the watch does not show yet: {', '.join(unseen[:3])}")

    async def _stop_late(self, sweep: Object, spec: SweepSpec, key: JobKey) -> None:
        """Stop trials of a complete sweep: requests that arrived late have created them."""
        jobs = self._trial_jobs(sweep, key)
        for each in _read(jobs.values(), spec, self._now()):
            if each.is_active:
                stopped = replace(each, stopped="created after the sweep was complete")
                await self._change(jobs[trial_name(key.name, each.index)], stopped, key)

    def _trial_jobs(self, sweep: Object, key: JobKey) -> dict[str, Object]:
        found = [dict(job) for job in self._jobs(key) if is_trial_of(job, sweep)]
        return {job["metadata"]["name"]: job for job in found}

    async def _change(self, job: Object, trial: Trial, key: JobKey) -> None:
        self._check_lease()
        name = job["metadata"]["name"]
        try:
            patched = await self._client.patch(
                DIJOBS,
                name,
                trial_patch(job, trial),
                key.namespace,
                field_manager=OPERATOR_NAME,
            )
        except (Conflict, Forbidden, Invalid, NotFound) as error:
            # It has changed, ended or was deleted; the watch reports that.
            raise Outdated(f"trial {name} has changed: {error}") from error
        self._observe_job(patched)
        if trial.stopped:
            log.info("stopped a trial", trial=name, reason=trial.stopped)

    async def _create(self, sweep: Object, spec: SweepSpec, decision: Decision, key: JobKey) -> str:
        """Create trials in their order; return the message about the first one that is refused."""
        wanted: list[tuple[int, Trial | None]] = [(index, None) for index in decision.create]
        for index, replaced in [*wanted, *decision.copies]:
            self._check_lease()
            job = owned_job(sweep, spec, index, replaced)
            name = job["metadata"]["name"]
            try:
                self._observe_job(await self._client.create(DIJOBS, job, key.namespace))
            except AlreadyExists:
                there = await self._client.get(DIJOBS, name, key.namespace)
                is_ours = is_trial_of(there, sweep)
                self._observe_job(there)
                if not is_ours:
                    return f"trial {name}: a DIJob of that name exists, which is not of this sweep"
            except (Forbidden, Invalid) as error:
                return f"trial {name}: {error.message}"
            else:
                log.info("created a trial", trial=name)
        return ""

    async def _report(self, sweep: Object, status: Mapping[str, Any], key: JobKey) -> None:
        if status == sweep.get("status"):
            return
        self._check_lease()
        # A merge patch: the best trial of an earlier generation would stay without its null.
        gone = {field: None for field in mapping(sweep.get("status")) if field not in status}
        try:
            patched = await self._client.patch(
                DISWEEPS,
                key.name,
                {"metadata": {"uid": sweep["metadata"]["uid"]}, "status": {**gone, **status}},
                key.namespace,
                subresource="status",
                field_manager=OPERATOR_NAME,
            )
        except NotFound:
            # Deleted: the watch reports it.
            return
        except Conflict as error:
            # Replaced by another one, or written by several clients at once.
            raise Outdated(f"the sweep has changed: {error}") from error
        self._found.absorb(patched)


def _read(jobs: Iterable[Object], spec: SweepSpec, now: datetime) -> list[Trial]:
    found = (read_trial(job, spec, now) for job in jobs)
    return [each for each in found if each is not None]


def _parameters(job: Object) -> Mapping[str, Any]:
    text = mapping(job["metadata"].get("annotations")).get(ANNOTATION_PARAMETERS)
    try:
        return mapping(json.loads(text)) if isinstance(text, str) else {}
    except ValueError:
        return {}


def _is_ending(job: Object) -> bool:
    """Return whether pods of a stopped trial still run."""
    is_stopped = mapping(job.get("spec")).get("suspend") is True
    return is_stopped and has_running_pods(mapping(job.get("status")).get("taskStatus"))
