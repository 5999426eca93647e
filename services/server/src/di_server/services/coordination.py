"""What a coordinator can do: list its replicas, add, remove and replace some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import structlog

from di_api.coordinated import DEFAULT_PORTS, Replica, Role, port_of
from di_api.kube.errors import Unavailable
from di_api.ownership import is_controlled_by
from di_server.deadline import Deadline
from di_server.decisions.coordinated import gpus, plans
from di_server.decisions.coordinated.job import CoordinatedJob
from di_server.decisions.coordinated.listing import Listing, listing
from di_server.decisions.coordinated.plans import Names, Plan
from di_server.decisions.coordinated.requests import Demand, Requester
from di_server.problems import NotAllowed
from di_server.services.grants import Grant
from di_server.services.optimism import REFUSALS, Optimism, from_memory_first
from di_server.services.patience import Patience
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.learners import LearnerStore
from di_server.storage.pods import PodStore

_log = structlog.get_logger()

Decide = Callable[[CoordinatedJob], Plan]


class Coordination:
    """Each method raises a Problem, or an error of the API client.

    Jobs are taken from memory, where they are a moment late. That is enough to list replicas and
    to plan a write, which fails if the job has changed. It is not enough to refuse anybody: a
    coordinator asks right after it and its job were made, and gives up when it is refused. So
    whatever would be refused is decided again on the job as etcd has it.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        pods: PodStore,
        learners: LearnerStore,
        optimism: Optimism,
        patience: Patience,
        rng: Random,
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._learners = learners
        self._optimism = optimism
        self._patience = patience
        self._rng = rng

    def replicas(self, grant: Grant, asking: Requester, deadline: Deadline) -> Listing:
        """All that a coordinator or an aggregator has."""

        def answer(job: CoordinatedJob) -> Listing:
            self._check(job, grant, asking, deadline)
            return self._whole(job, asking.pod, deadline)

        def attempt() -> Listing:
            known = self._jobs.known(grant.ref)
            if known is not None:
                with suppress(*REFUSALS):
                    return answer(known)
            return answer(self._read(grant, deadline))

        return self._patience.run(attempt, deadline)

    def all(self, namespace: str | None, grant: Grant | None, deadline: Deadline) -> list[Listing]:
        """What each coordinator has that has not ended; with a grant, only that job's."""

        def answer() -> list[Listing]:
            jobs = self._jobs.all(namespace, deadline)
            if grant is not None:
                jobs = [job for job in jobs if (grant.ref, grant.job_uid) == (job.ref, job.uid)]
            return [found for job in jobs if (found := self._running(job, deadline)) is not None]

        return self._patience.run(answer, deadline)

    def add(self, grant: Grant, asking: Requester, demand: Demand, deadline: Deadline) -> Listing:
        """Append replicas; the answer has the new ones."""
        node_gpus = self._patience.run(lambda: self._node_gpus(demand, deadline), deadline)

        def decide(job: CoordinatedJob) -> Plan:
            return plans.add(job, demand, Names(job, self._rng), node_gpus=node_gpus)

        return self._write(grant, asking, asking.coordinator, decide, deadline)

    def remove(
        self, grant: Grant, asking: Requester, demand: Demand, deadline: Deadline
    ) -> Listing:
        """Take the newest replicas away; the answer has those that go."""

        def decide(job: CoordinatedJob) -> Plan:
            return plans.remove(job, demand)

        return self._write(grant, asking, asking.coordinator, decide, deadline)

    def replace(
        self, grant: Grant, asking: Requester, failed: frozenset[str], deadline: Deadline
    ) -> Listing:
        """Make failed replicas anew; the answer has the new ones."""

        def decide(job: CoordinatedJob) -> Plan:
            return plans.replace(job, failed, Names(job, self._rng))

        return self._write(grant, asking, asking.pod, decide, deadline)

    def _write(
        self, grant: Grant, asking: Requester, told: str, decide: Decide, deadline: Deadline
    ) -> Listing:
        """Plan and write once; the answer is for the eyes of the pod `told`."""
        # Their patches got no answer. At most one of them has an effect, now or later: they all
        # set a version, and so does the next one.
        unsure: list[Plan] = []

        def write(job: CoordinatedJob) -> tuple[Listing, bool]:
            self._check(job, grant, asking, deadline)
            done = next((plan for plan in unsure if plans.is_done(job, plan)), None)
            plan = done or decide(job)
            # All that may fail comes before the write.
            answer = self._listing(job, plan.touched, told, deadline)
            if plan.touched and not done:
                try:
                    self._jobs.patch_spec(grant.ref, plans.patch(job, plan), deadline)
                except Unavailable:
                    unsure.append(plan)
                    raise
            # Without a write no version proves that the plan was made on the job as it is.
            return answer, bool(plan.touched)

        attempt = from_memory_first(
            self._jobs.known(grant.ref), lambda: self._read(grant, deadline), write
        )
        return self._patience.run(
            lambda: self._optimism.run(grant.ref, attempt, deadline), deadline
        )

    def _node_gpus(self, demand: Demand, deadline: Deadline) -> int:
        """GPUs of the usual node, where a learner is to be split by it; else 0."""
        if not demand.learners.replicas or demand.learners.gpus <= 1:
            return 0
        self._learners.require_aggregator(deadline)
        return gpus.usual(self._learners.node_gpus(deadline))

    def _read(self, grant: Grant, deadline: Deadline) -> CoordinatedJob:
        return CoordinatedJob(self._jobs.get(grant.ref, deadline))

    def _check(
        self, job: CoordinatedJob, grant: Grant, asking: Requester, deadline: Deadline
    ) -> None:
        grant.check(job.raw)
        job.check_coordinated()
        job.check_member(asking.pod)
        self._check_owner(job, asking, deadline)

    def _check_owner(self, job: CoordinatedJob, asking: Requester, deadline: Deadline) -> None:
        """Refuse the pod of an earlier job of this name, which may run on for a while."""
        where, name = job.ref.namespace, asking.pod
        known = self._pods.known(where, name)
        if self._pods.in_sight and _is_of(known, job):
            return
        if not _is_of(self._pods.find(where, name, deadline), job):
            raise NotAllowed(f"pod {name} does not belong to this job {job.ref.id}")

    def _running(self, job: CoordinatedJob, deadline: Deadline) -> Listing | None:
        """What a coordinator that has not ended has; a job that cannot be read has nothing."""
        try:
            if not job.has_coordinator or job.has_ended:
                return None
            job.replicas  # noqa: B018 - read here, where it concerns this job alone
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.warning("a job cannot be read", job=job.ref.id, detail=str(error))
            return None
        return self._whole(job, job.coordinator, deadline)

    def _whole(self, job: CoordinatedJob, pod: str, deadline: Deadline) -> Listing:
        port = self._aggregator_port(bool(job.aggregators), deadline)
        found = job.listings.get((pod, port))
        if found is None:
            found = listing(job, job.replicas, pod, aggregator_port=port)
            job.listings[pod, port] = found
        return found

    def _listing(
        self, job: CoordinatedJob, replicas: Sequence[Replica], pod: str, deadline: Deadline
    ) -> Listing:
        has_aggregators = any(each.role is Role.AGGREGATOR for each in replicas)
        port = self._aggregator_port(has_aggregators, deadline)
        return listing(job, replicas, pod, aggregator_port=port)

    def _aggregator_port(self, matters: bool, deadline: Deadline) -> int:
        if not matters:
            return DEFAULT_PORTS[Role.AGGREGATOR]
        return port_of(self._learners.aggregator(deadline), Role.AGGREGATOR)


def _is_of(pod: Object | None, job: CoordinatedJob) -> bool:
    """Whether the pod is the job's, or there is none (any more) to say otherwise."""
    return pod is None or is_controlled_by(pod, job.uid)
