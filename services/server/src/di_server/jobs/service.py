"""What can be done to a job: list its replicas, scale it, report profilings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from di_server.access.grants import Grant
from di_server.deadline import Deadline
from di_server.jobs import profilings, scaling
from di_server.jobs.addresses import addresses
from di_server.jobs.idempotency import IdempotencyKey, ScalingResult
from di_server.model.job import Job
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.pods import PodStore
from di_server.storage.updates import POSSIBLY_STALE, JobUpdates, Update


class JobService:
    """Each method raises a Problem, or an error of the API client.

    Jobs are taken from the cache as coordinators' are (see CoordinationService), and read when
    they would be refused, or have changed since.
    """

    def __init__(
        self, *, jobs: JobStore, pods: PodStore, updates: JobUpdates, default_max_replicas: int
    ) -> None:
        """`default_max_replicas` bounds the scaling of a task without maxReplicas."""
        self._jobs = jobs
        self._pods = pods
        self._updates = updates
        self._default_max_replicas = default_max_replicas

    def replicas(self, grant: Grant, deadline: Deadline) -> list[str]:
        """`ip:port` by rank."""
        cached = self._jobs.cached(grant.ref)
        if cached is not None and self._pods.synced:
            with suppress(*POSSIBLY_STALE):
                grant.check(cached.raw)
                return addresses(cached.raw, self._pods.cached_of(grant.ref))
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        return addresses(job, self._pods.of_job(grant.ref, deadline))

    def scale(
        self,
        grant: Grant,
        asked: scaling.ScalingRequest,
        key: IdempotencyKey | None,
        deadline: Deadline,
    ) -> ScalingResult:
        """Change a replica count exactly once; the result is the value it was set to."""

        def decide(job: Job) -> Update[ScalingResult]:
            grant.check(job.raw)
            found = scaling.decide(
                job.raw, asked, key, default_max_replicas=self._default_max_replicas
            )
            match found:
                case scaling.Replay(result):
                    return Update(result, settled=True)
                case scaling.ScalingPatch(operations, result):
                    return Update(result, operations)

        return self._updates.update_spec(grant.ref, decide, deadline)

    def report(self, grant: Grant, reported: Mapping[str, Any], deadline: Deadline) -> None:
        """Merge profilings into the job's status."""

        def decide(job: Object) -> Object:
            grant.check(job)
            return profilings.status_patch(job, reported)

        self._updates.update_status(grant.ref, decide, deadline)
