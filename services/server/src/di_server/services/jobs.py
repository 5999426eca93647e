"""What can be done to a job: list its replicas, scale it, report profilings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from di_server.deadline import Deadline
from di_server.decisions import profilings, scaling
from di_server.decisions.addresses import addresses
from di_server.decisions.ledger import Answer, RetryKey
from di_server.services.grants import Grant
from di_server.services.optimism import REFUSALS, Optimism, from_memory_first
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.pods import PodStore


class JobService:
    """Each method raises a Problem, or an error of the API client.

    Jobs are taken from memory as coordinators' are (see Coordination), and read when they would be
    refused, or have changed since.
    """

    def __init__(
        self, *, jobs: JobStore, pods: PodStore, optimism: Optimism, default_max_replicas: int
    ) -> None:
        """`default_max_replicas` bounds the scaling of a task without maxReplicas."""
        self._jobs = jobs
        self._pods = pods
        self._optimism = optimism
        self._default_max_replicas = default_max_replicas

    def replicas(self, grant: Grant, deadline: Deadline) -> list[str]:
        """`ip:port` by rank."""
        known = self._jobs.known(grant.ref)
        if known is not None and self._pods.in_sight:
            with suppress(*REFUSALS):
                grant.check(known.raw)
                return addresses(known.raw, self._pods.known_of(grant.ref))
        job = self._read(grant, deadline)
        return addresses(job, self._pods.of_job(grant.ref, deadline))

    def scale(
        self, grant: Grant, change: scaling.Change, key: RetryKey | None, deadline: Deadline
    ) -> Answer:
        """Change a replica count exactly once; the answer is the value it was set to."""

        def act(job: Mapping[str, Any]) -> tuple[Answer, bool]:
            grant.check(job)
            found = scaling.plan(job, change, key, default_max_replicas=self._default_max_replicas)
            match found:
                case scaling.Replay(answer):
                    return answer, True
                case scaling.Write(operations, answer):
                    self._jobs.patch_spec(grant.ref, operations, deadline)
                    return answer, True

        known = self._jobs.known(grant.ref)
        attempt = from_memory_first(
            None if known is None else known.raw,
            lambda: self._jobs.get(grant.ref, deadline),
            act,
        )
        return self._optimism.run(grant.ref, attempt, deadline)

    def report(self, grant: Grant, reported: Mapping[str, Any], deadline: Deadline) -> None:
        """Merge profilings into the job's status."""

        def attempt() -> None:
            patch = profilings.plan(self._read(grant, deadline), reported)
            self._jobs.patch_status(grant.ref, patch, deadline)

        self._optimism.run(grant.ref, attempt, deadline)

    def _read(self, grant: Grant, deadline: Deadline) -> Object:
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        return job
