"""Operations on a coordinator's replicas: list, add, remove and replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import structlog

from di_api.coordinated import DEFAULT_PORTS, port_of
from di_api.ownership import is_controlled_by
from di_api.spec import Replica, Role
from di_server.access.grants import Grant
from di_server.coordination import gpus, plans
from di_server.coordination.checks import check_coordinated, check_member
from di_server.coordination.listing import Listing, listing
from di_server.coordination.plans import NameGenerator, Plan
from di_server.coordination.requests import Demand, Requester
from di_server.deadline import Deadline
from di_server.model.job import Job
from di_server.problems import NotAllowed
from di_server.retry_policy import RetryPolicy
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.learners import LearnerStore
from di_server.storage.pods import PodStore
from di_server.storage.updates import POSSIBLY_STALE, JobUpdates, Update

_log = structlog.get_logger()

Decide = Callable[[Job], Plan]


class CoordinationService:
    """Each method raises a Problem, or an error of the API client.

    Jobs come from the cache, which is a moment behind. That is enough to list replicas and to plan
    a write, which fails if the job has changed. It is not enough for a refusal: a coordinator calls
    right after it and its job were created, and stops when it is refused. So a refusal is decided
    again on the job as etcd has it.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        pods: PodStore,
        learners: LearnerStore,
        updates: JobUpdates,
        names_callers: bool,
        policy: RetryPolicy,
        rng: Random,
    ) -> None:
        """Put the parts together; `names_callers`: jobs record the author of their last change."""
        self._jobs = jobs
        self._pods = pods
        self._learners = learners
        self._updates = updates
        self._names_callers = names_callers
        self._policy = policy
        self._rng = rng

    def replicas(self, grant: Grant, asking: Requester, deadline: Deadline) -> Listing:
        """Return all replicas of a coordinator or an aggregator."""

        def list_of(job: Job) -> Listing:
            self._check(job, grant, asking, deadline)
            return self._whole(job, asking.pod, deadline)

        def attempt() -> Listing:
            cached = self._jobs.cached(grant.ref)
            if cached is not None:
                with suppress(*POSSIBLY_STALE):
                    return list_of(cached)
            return list_of(self._read(grant, deadline))

        return self._policy.run(attempt, deadline)

    def all(self, namespace: str | None, grant: Grant | None, deadline: Deadline) -> list[Listing]:
        """Return the replicas of each coordinator that has not ended; with a grant, only of that
        job.
        """

        def list_all() -> list[Listing]:
            jobs = self._jobs.all(namespace, deadline)
            if grant is not None:
                jobs = [job for job in jobs if (grant.ref, grant.job_uid) == (job.ref, job.uid)]
            return [found for job in jobs if (found := self._running(job, deadline)) is not None]

        return self._policy.run(list_all, deadline)

    def add(self, grant: Grant, asking: Requester, demand: Demand, deadline: Deadline) -> Listing:
        """Append replicas; return the new ones."""
        node_gpus = self._policy.run(lambda: self._node_gpus(demand, deadline), deadline)

        def decide(job: Job) -> Plan:
            return plans.add(job, demand, NameGenerator(job, self._rng), node_gpus=node_gpus)

        return self._write(grant, asking, asking.coordinator, decide, deadline)

    def remove(
        self, grant: Grant, asking: Requester, demand: Demand, deadline: Deadline
    ) -> Listing:
        """Remove the newest replicas; return the removed ones."""

        def decide(job: Job) -> Plan:
            return plans.remove(job, demand)

        return self._write(grant, asking, asking.coordinator, decide, deadline)

    def replace(
        self, grant: Grant, asking: Requester, failed: frozenset[str], deadline: Deadline
    ) -> Listing:
        """Replace failed replicas; return the new ones."""

        def decide(job: Job) -> Plan:
            return plans.replace(job, failed, NameGenerator(job, self._rng))

        return self._write(grant, asking, asking.pod, decide, deadline)

    def _write(
        self, grant: Grant, asking: Requester, told: str, decide: Decide, deadline: Deadline
    ) -> Listing:
        """Plan and write once; return the affected replicas, with addresses for the pod `told`."""
        # At most one of them takes effect, now or later: they all set a version, and so does the
        # next one.
        lost: list[Plan] = []

        def on_lost(update: Update[tuple[Plan, Listing]]) -> None:
            plan, _ = update.result
            lost.append(plan)

        def update(job: Job) -> Update[tuple[Plan, Listing]]:
            self._check(job, grant, asking, deadline)
            done = next((plan for plan in lost if plans.is_done(job, plan)), None)
            plan = done or decide(job)
            # Everything that can fail comes before the write.
            found = self._listing(job, plan.touched, told, deadline)
            if not plan.touched:
                # Without a write no version proves that the plan was based on the present job.
                return Update((plan, found))
            who = grant.who if self._names_callers else ""
            operations = () if done else plans.patch(job, plan, who)
            return Update((plan, found), operations, settled=True)

        _, found = self._updates.update_spec(
            grant.ref, update, deadline, policy=self._policy, on_lost=on_lost
        )
        return found

    def _node_gpus(self, demand: Demand, deadline: Deadline) -> int:
        """Return the GPUs of the usual node, if a learner may have to be split; else 0."""
        if not demand.learners.replicas or demand.learners.gpus <= 1:
            return 0
        self._learners.require_aggregator(deadline)
        return gpus.usual(self._learners.node_gpus(deadline))

    def _read(self, grant: Grant, deadline: Deadline) -> Job:
        return Job(self._jobs.get(grant.ref, deadline))

    def _check(self, job: Job, grant: Grant, asking: Requester, deadline: Deadline) -> None:
        grant.check(job.raw)
        check_coordinated(job)
        check_member(job, asking.pod)
        self._check_owner(job, asking, deadline)

    def _check_owner(self, job: Job, asking: Requester, deadline: Deadline) -> None:
        """Refuse the pod of an earlier job of this name, which can still run for a while."""
        where, name = job.ref.namespace, asking.pod
        known = self._pods.cached(where, name)
        if self._pods.synced and _is_of(known, job):
            return
        if not _is_of(self._pods.find(where, name, deadline), job):
            raise NotAllowed(f"pod {name} does not belong to this job {job.ref.id}")

    def _running(self, job: Job, deadline: Deadline) -> Listing | None:
        """Return the replicas of a coordinator that has not ended; None for a job that cannot be
        parsed.
        """
        try:
            if not job.has_coordinator or job.has_ended:
                return None
            job.replicas  # noqa: B018 - read here, where it concerns this job alone
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            _log.warning("a job cannot be read", job=job.ref.id, detail=str(error))
            return None
        return self._whole(job, job.coordinator, deadline)

    def _whole(self, job: Job, pod: str, deadline: Deadline) -> Listing:
        port = self._aggregator_port(bool(job.aggregators), deadline)
        found = job.listings.get((pod, port))
        if found is None:
            found = listing(job, job.replicas, pod, aggregator_port=port)
            job.listings[pod, port] = found
        return found

    def _listing(
        self, job: Job, replicas: Sequence[Replica], pod: str, deadline: Deadline
    ) -> Listing:
        has_aggregators = any(each.role is Role.AGGREGATOR for each in replicas)
        port = self._aggregator_port(has_aggregators, deadline)
        return listing(job, replicas, pod, aggregator_port=port)

    def _aggregator_port(self, matters: bool, deadline: Deadline) -> int:
        if not matters:
            return DEFAULT_PORTS[Role.AGGREGATOR]
        return port_of(self._learners.aggregator(deadline), Role.AGGREGATOR)


def _is_of(pod: Object | None, job: Job) -> bool:
    """Return whether the pod belongs to the job; True if there is no pod (any more)."""
    return pod is None or is_controlled_by(pod, job.uid)
