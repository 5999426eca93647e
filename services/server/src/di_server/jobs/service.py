"""Operations on a job with tasks: its replicas, reports, and process groups."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import structlog

from di_api.defaults import with_defaults
from di_api.field_error import mapping
from di_server.access.grants import Grant
from di_server.deadline import Clock, Deadline
from di_server.jobs import profilings, scaling
from di_server.jobs.addresses import PodsRequest, addresses, pods_of
from di_server.jobs.groups import GroupRequest, described, group_of
from di_server.jobs.heartbeats import Beat
from di_server.jobs.idempotency import IdempotencyKey, ScalingResult
from di_server.jobs.shards.asked import Restore, Take
from di_server.jobs.stored_shards import StoredShards
from di_server.jobs.waiting import Waiting
from di_server.model.job import Job
from di_server.model.references import JobRef
from di_server.model.tasks import check_has_tasks
from di_server.problems import Problem
from di_server.rest.tagged import Tagged
from di_server.storage.coalescing import Coalescer, Pace
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.pods import PodStore
from di_server.storage.updates import POSSIBLY_STALE, JobUpdates, Update

_log = structlog.get_logger()
T = TypeVar("T")


class JobService:
    """Each method raises a Problem, or an error of the API client.

    Jobs come from the cache as in CoordinationService, and are read from the API server before a
    refusal, or if they have changed.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        pods: PodStore,
        updates: JobUpdates,
        shards: StoredShards,
        default_max_replicas: int,
        names_callers: bool,
        report_seconds: float,
        reports_waiting: int,
        waiting: int,
        service_domain: str,
        is_ending: Callable[[], bool],
        clock: Clock,
        now: Callable[[], datetime],
        sleep: Callable[[float], None],
    ) -> None:
        """Put the parts together.

        Args:
            default_max_replicas: limits the scaling of a task without maxReplicas.
            names_callers: whether jobs record the author of their last change.
            report_seconds: between two writes of a job's reports, on average.
            reports_waiting: maximum number of reports that wait to be written together.
            waiting: maximum number of requests that wait for news of a process group or of pods.
            service_domain: the cluster's, for the DNS names of pods.
            is_ending: whether the process is about to end; waiting requests are answered then.
            now: the API server's wall clock, by which the operator judges progress.
        """
        self._jobs = jobs
        self._pods = pods
        self._updates = updates
        self._shards = shards
        self._default_max_replicas = default_max_replicas
        self._names_callers = names_callers
        self._service_domain = service_domain
        self._clock = clock
        self._waiting = Waiting(places=waiting, is_ending=is_ending, clock=clock, sleep=sleep)
        self._now = now
        self._reports = Coalescer(
            self._write_reports,
            places=threading.Semaphore(reports_waiting),
            clock=clock,
            sleep=sleep,
            pace=Pace(interval=report_seconds),
        )

    def replicas(self, grant: Grant, deadline: Deadline) -> list[str]:
        """Return `ip:port` by rank."""
        return self._of_pods(grant, deadline, addresses)

    def tasks(self, grant: Grant, deadline: Deadline) -> list[dict[str, Any]]:
        """Return the wanted number of replicas of each task.

        Read from the API server, because the caller usually sets another number next.
        """
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        check_has_tasks(job)
        tasks = with_defaults(job["spec"]).get("tasks") or []
        return [{"task": task["name"], "replicas": task["replicas"]} for task in tasks]

    def pods(self, grant: Grant, asked: PodsRequest) -> Tagged:
        """Return the running pods of a task by rank, as soon as they differ from the caller's list.

        Only the cache is read while it waits.
        """

        def look(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> Tagged:
            return Tagged(pods_of(job, pods, asked.task))

        with suppress(*POSSIBLY_STALE):
            found = self._waiting.until(
                grant.ref, lambda: self._in_cache(grant, look), asked.is_news, asked.wait
            )
            if found is not None:
                return found
        # The wait can have been longer than the deadline of the request.
        return self._of_pods(grant, Deadline.after(self._clock), look)

    def _of_pods(
        self,
        grant: Grant,
        deadline: Deadline,
        look: Callable[[Mapping[str, Any], Iterable[Mapping[str, Any]]], T],
    ) -> T:
        with suppress(*POSSIBLY_STALE):
            found = self._in_cache(grant, look)
            if found is not None:
                return found
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        return look(job, self._pods.of_job(grant.ref, deadline))

    def _in_cache(
        self,
        grant: Grant,
        look: Callable[[Mapping[str, Any], Iterable[Mapping[str, Any]]], T],
    ) -> T | None:
        cached = self._jobs.cached(grant.ref)
        if cached is None or not self._pods.synced:
            return None
        grant.check(cached.raw)
        return look(cached.raw, self._pods.cached_of(grant.ref))

    def group(self, grant: Grant, asked: GroupRequest) -> dict[str, Any]:
        """Return the members of a task's process group, as soon as they differ from the caller's.

        Only the cache is read while it waits. A missing job is answered at once.
        """

        def look() -> Mapping[str, Any] | None:
            cached = self._jobs.cached(grant.ref)
            return None if cached is None else cached.raw

        def is_news(job: Mapping[str, Any]) -> bool:
            grant.check(job)
            return asked.is_news(group_of(job, asked.task))

        def describe(job: Mapping[str, Any]) -> dict[str, Any]:
            grant.check(job)
            return described(job, asked.task, self._service_domain)

        with suppress(*POSSIBLY_STALE):
            job = self._waiting.until(grant.ref, look, is_news, asked.wait)
            if job is not None:
                return describe(job)
        return describe(self._jobs.get(grant.ref, Deadline.after(self._clock)))

    def scale(
        self,
        grant: Grant,
        asked: scaling.ScalingRequest,
        key: IdempotencyKey | None,
        deadline: Deadline,
        trace: str | None = None,
    ) -> ScalingResult:
        """Change a replica count exactly once; return the new value. `trace` is the span of the
        request, recorded on the job for the operator.
        """
        note = scaling.trace_note(trace, self._now()) if trace is not None else None

        def decide(job: Job) -> Update[ScalingResult]:
            grant.check(job.raw)
            found = scaling.decide(
                job.raw,
                asked,
                key,
                trace=note,
                who=grant.who if self._names_callers else "",
                default_max_replicas=self._default_max_replicas,
            )
            match found:
                case scaling.Replay(result):
                    return Update(result, settled=True)
                case scaling.ScalingPatch(operations, result):
                    return Update(result, operations)

        result = self._updates.update_spec(grant.ref, decide, deadline)
        _log.info(
            "scaled",
            namespace=grant.ref.namespace,
            name=grant.ref.name,
            task=result.task,
            replicas=result.replicas,
            delta=asked.delta,
            to=asked.to,
        )
        return result

    def report(
        self,
        grant: Grant,
        reported: Mapping[str, Any],
        deadline: Deadline,
        beat: Beat | None = None,
    ) -> profilings.Advice:
        """Merge profilings, and the sender's heartbeat, into the job's status, within a second;
        return the decisions of the allocator about the job, which is read anyway.
        """
        report = profilings.Report(reported, grant.check, beat)
        problem, advised = self._reports.submit(grant.ref, report, deadline)
        if problem is not None:
            raise problem
        return advised

    def reported(self, grant: Grant, deadline: Deadline) -> Mapping[str, Any]:
        """Return all reports of the job that are already written.

        Read from the API server, because the cache omits reports, which are large.
        """
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        return mapping(mapping(job.get("status")).get("profilings"))

    def write_shards(
        self, grant: Grant, asked: Take | Restore, deadline: Deadline
    ) -> dict[str, Any]:
        """Serve a request for data shards."""
        return self._shards.serve(grant, asked, deadline)

    def shards(self, grant: Grant, name: str, deadline: Deadline) -> dict[str, Any]:
        """Return the position in a data set."""
        return self._shards.position(grant, name, deadline)

    def _write_reports(
        self, ref: JobRef, reports: Sequence[profilings.Report], deadline: Deadline
    ) -> Sequence[tuple[Problem | None, profilings.Advice]]:
        merged = profilings.Merged(None, ())

        def decide(job: Object) -> Object | None:
            nonlocal merged
            merged = profilings.status_patch(job, reports, self._now())
            return merged.patch

        self._updates.update_status(ref, decide, deadline)
        return [(problem, merged.advice) for problem in merged.problems]
