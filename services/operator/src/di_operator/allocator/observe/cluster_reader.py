"""From the cluster's objects to the input of the allocator. Raw dicts in, no client.

The allocator decides on preemptible jobs, and on gangs until they are released. All other pods
occupy capacity that it cannot assign, and so does the part of a released gang that is not bound
yet. Terminating pods occupy capacity too, but only for a short time.

The reader receives every object that is added, changed or removed, and reads that object alone. So
a round costs what has changed since the last one. Every job, node and pod is read in isolation:
one that cannot be read is named in the snapshot, and all others are in it. A job that cannot be
read keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from di_api.field_error import InvalidSpec
from di_api.names import KIND
from di_api.ownership import controller_uid
from di_api.spec import JobSpec
from di_api.wording import reason_of
from di_operator.allocator.admission.admitted import within_admitted
from di_operator.allocator.admission.guarantees import bar_gangs
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.resources import Resources
from di_operator.allocator.observe.accounts import Bounds
from di_operator.allocator.observe.changes import Changes, asks_for_nodes
from di_operator.allocator.observe.decided_jobs import DecidedJob, gives_way, is_ours
from di_operator.allocator.observe.failures import with_growth, without_avoided
from di_operator.allocator.observe.gangs import keep_room, rest_of, was_let_go, without
from di_operator.allocator.observe.inventory import (
    MAKES_NO_SENSE,
    KnownJob,
    Unreadable,
    bound_node,
    read_job,
    read_pod,
)
from di_operator.allocator.observe.node_pool import NodePool
from di_operator.allocator.observe.node_usage import Ledger
from di_operator.allocator.observe.own_pods import (
    A_POD,
    OwnPods,
    assigned,
    read_own_pods,
    spec_of_pods,
    without_requests,
)
from di_operator.allocator.observe.refused_nodes import Refusals
from di_operator.allocator.observe.report_cache import Reports
from di_operator.allocator.observe.reservations import (
    UNTOUCHED,
    Holder,
    Reservations,
    WaitingPod,
)
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.rounds.failing_jobs import FailingJobs
from di_operator.allocator.sharing.queues import NO_QUEUES, Queues
from di_operator.allocator.sharing.quotas import asked_by
from di_operator.allocator.withdrawals.dry_runs import DryRuns
from di_operator.allocator.withdrawals.resource_quotas import ResourceQuotas
from di_operator.allocator.withdrawals.withdrawals import KeptOut, Withdrawals
from di_operator.lifecycle.observed.placement import is_placed
from di_operator.lifecycle.observed.pods import is_finished, refusal_of
from di_operator.lifecycle.observed.status import Status

Object = Mapping[str, Any]
ReadSpec = Callable[[Object], JobSpec]


class ClusterReader:
    """The allocator's state of the cluster; it belongs to one thread."""

    def __init__(
        self,
        read_spec: ReadSpec,
        *,
        kind_label: str | None = None,
        queues: Queues = NO_QUEUES,
        needs_dry_runs: bool = False,
        high_priority_class: str | None = None,
    ) -> None:
        """Build an empty reader.

        `read_spec` returns the spec of a job, and can raise InvalidSpec. `kind_label` is the label
        whose value is a node's kind; None: all are of one. `queues` bound what jobs of their
        namespaces can have. With `needs_dry_runs` a job without nodes and pods is in no snapshot
        before its dry runs have passed. `high_priority_class` is that of pods of jobs with high
        priority.
        """
        self._read_spec = read_spec
        self._needs_dry_runs = needs_dry_runs
        self._dry_runs = DryRuns()
        self._queues = queues
        self._high_priority_class = high_priority_class
        # By UID of a job that the allocator does not decide on, in a namespace with a queue.
        self._besides = Ledger()
        self._pool = NodePool(kind_label=kind_label)
        self._reports = Reports()
        self._refusals = Refusals()
        self._withdrawals = Withdrawals()
        self._quotas = ResourceQuotas()
        # By UID of a job that the allocator decides on: what its pods take, by namespace.
        self._own = Ledger()
        self._bounds = Bounds(
            queues=queues, quotas=self._quotas, besides=self._besides, own=self._own
        )
        self._reservations = Reservations()
        self._jobs: dict[str, Object] = {}
        # Deleted jobs, by UID, until the last of their pods is gone. What these take of their
        # nodes is known from the job alone.
        self._departed: dict[str, Object] = {}
        # By the UID of their job, then by their own: pods that have not ended.
        self._pods: dict[str, dict[str, Object]] = {}
        self._owners: dict[str, str] = {}
        self._ours: dict[str, DecidedJob] = {}
        # Preemptible jobs whose nodes others can have, although their status still shows these.
        self._given_up: set[str] = set()
        # By UID: the unbound part of released gangs.
        self._rests: dict[str, KnownJob] = {}
        # Jobs to be read again.
        self._stale: set[str] = set()
        # Jobs that are treated as unreadable because the policy fails on them.
        self._failing = FailingJobs()
        # By the UID of the job or other pod in which it was found, then by its own.
        self._unreadable: dict[str, dict[str, Unreadable]] = {}

    def take(self, changes: Changes) -> None:
        """Process all that has changed."""
        for put, remove, found in (
            (self.put_node, self.remove_node, changes.nodes),
            (self.put_job, self.remove_job, changes.jobs),
            (self.put_pod, self.remove_pod, changes.pods),
            (self.put_other, self.remove_other, changes.others),
            (self._quotas.put, self._quotas.remove, changes.quotas),
        ):
            for is_there, body in found.values():
                (put if is_there else remove)(body)
        for write in changes.refused:
            self._withdrawals.put(write)
        for uid, generation in changes.dry_runs.items():
            self._dry_runs.put(uid, generation)

    def put_job(self, job: Object) -> None:
        """Store a DIJob of any type as it is now."""
        uid = job["metadata"]["uid"]
        self._jobs[uid] = job
        self._departed.pop(uid, None)
        self._stale.add(uid)

    def remove_job(self, job: Object) -> None:
        """Record the deletion of a job; its pods may still exist."""
        uid = job["metadata"]["uid"]
        self._jobs.pop(uid, None)
        self._given_up.discard(uid)
        self._failing.forget(uid)
        self._reports.forget(uid)
        self._refusals.forget(uid)
        self._withdrawals.forget(uid)
        self._dry_runs.forget(uid)
        self._departed[uid] = job
        self._stale.add(uid)

    def put_node(self, node: Object) -> None:
        """Store a node as it is now."""
        self._pool.put(node)

    def remove_node(self, node: Object) -> None:
        """Record the deletion of a node."""
        self._pool.remove(node)

    def put_pod(self, pod: Object) -> None:
        """Store a pod with a job's labels. For a pod that belongs to a job, only the node in its
        spec is read.
        """
        owner, uid = controller_uid(pod), pod["metadata"]["uid"]
        if self._owners.get(uid) != owner or is_finished(pod):
            self.remove_pod(pod)
        if owner is None:
            # Labels alone do not make a pod part of a job.
            self.put_other(pod)
            return
        if is_finished(pod):
            return
        self._refusals.put_pod(pod)
        self._pods.setdefault(owner, {})[uid] = pod
        self._owners[uid] = owner
        self._stale.add(owner)

    def remove_pod(self, pod: Object) -> None:
        """Record the deletion of a pod with a job's labels."""
        uid = pod["metadata"]["uid"]
        owner = self._owners.pop(uid, None)
        if owner is None:
            self.remove_other(pod)
            return
        del self._pods[owner][uid]
        if not self._pods[owner]:
            del self._pods[owner]
        self._stale.add(owner)

    def put_other(self, pod: Object) -> None:
        """Store a pod that belongs to no job."""
        uid = pod["metadata"]["uid"]
        self._unreadable.pop(uid, None)
        self._reservations.remove(uid)
        try:
            taken = read_pod(pod)
            if refusal_of(pod) and not is_finished(pod):
                self._reservations.put(WaitingPod.read(pod))
        except MAKES_NO_SENSE as error:
            self._unreadable[uid] = {uid: Unreadable.of("Pod", pod, reason_of(error))}
            node = bound_node(pod)
            taken = (node, A_POD) if node else None
        self._pool.staying.put(uid, (taken,) if taken else ())

    def remove_other(self, pod: Object) -> None:
        """Record the deletion of a pod that belongs to no job."""
        uid = pod["metadata"]["uid"]
        self._unreadable.pop(uid, None)
        self._reservations.remove(uid)
        self._pool.staying.put(uid, ())

    @property
    def failing(self) -> FailingJobs:
        """Return the jobs that the policy fails on; `set_aside` and `take_back` change them."""
        return self._failing

    def set_aside(self, uid: str, why: str, now: datetime) -> None:
        """Treat a job that the policy fails on as unreadable for some time."""
        self._failing.put(uid, why, now)
        self._stale.add(uid)

    def take_back(self, now: datetime) -> list[str]:
        """Read again the jobs whose time aside is over, and return their UIDs: the policy has to
        be asked about each alone first.
        """
        due = self._failing.release(now)
        self._stale.update(due)
        return due

    def read(self, *, granted: Mapping[str, NodeList], now: datetime) -> SchedulingSnapshot:
        """Return the cluster as it is known. Jobs with an invalid spec are in no snapshot: the
        lifecycle reports them. Their pods take what they have.

        Args:
            granted: by UID, what jobs were granted by this leader.
            now: the time, aware.
        """
        for uid in self._stale:
            self._look_at(uid, now)
        self._stale.clear()
        self._refusals.look(now, self._jobs)
        self._withdrawals.retain(self._ours)
        lasting, free = self._pool.rooms()
        jobs: dict[str, JobInfo] = {}
        held: dict[str, NodeList] = {}
        refused: dict[str, str] = {}
        uids: dict[str, str] = {}
        kept_out: dict[str, KeptOut] = {}
        cut: set[str] = set()
        for uid, job in self._ours.items():
            key = job.known.info.key
            has = granted.get(uid, WAIT if uid in self._given_up else job.placed)
            if has:
                self._given_up.discard(uid)
            info = job.known.at(now, held=has, attained=job.status.attained(now))
            if self._withdrawals.knows(uid):
                decided = self._withdrawals.decide(
                    uid, info, has, job.pods, now, generation=job.generation
                )
                if isinstance(decided, str):
                    self._dry_runs.forget(uid)
                    if job.placed:
                        self._given_up.add(uid)
                    kept_out[uid] = KeptOut(key=key, preemptible=info.preemptible, message=decided)
                    continue
                info, left = decided
                if left != has:
                    cut.add(key)
                has = left
            if not has and self._lacks_dry_run(uid, job):
                continue
            uids[key], held[key] = uid, has
            info = self._refusals.bar(uid, info, now)
            info = without_avoided(info, job.avoided, now)
            jobs[key] = info
            if words := self._refusals.words(uid, now):
                refused[key] = words
        present = {key: self._ours[uid].present for key, uid in uids.items()}
        jobs = self._bounds.applied(jobs, held, present)
        if self._rests:
            rests = {r.info.key: r.at(now, held=WAIT, attained=0.0) for r in self._rests.values()}
            kept = keep_room(rests, ((jobs[key], nodes) for key, nodes in held.items()), lasting)
            lasting, free = without(lasting, kept), without(free, kept)
        kept = self._reservations.look(lasting, free, self._holders(jobs, held), now)
        if kept:
            lasting, free = without(lasting, kept), without(free, kept)
        besides = {n: dict(self._besides.taken(n)) for n in self._queues.by_namespace}
        if self._queues:
            jobs = bar_gangs(jobs, held, lasting, self._queues, besides)
        left_out = [*self._unreadable.values(), self._pool.unreadable]
        return SchedulingSnapshot(
            jobs=jobs,
            uids=uids,
            held=held,
            present=present,
            nodes=lasting,
            now=free,
            refused=refused,
            ends={
                key: end
                for key, uid in uids.items()
                if (end := self._ours[uid].status.expectation) is not None
            },
            unreadable={uid: one for found in left_out for uid, one in found.items()},
            kept_out=kept_out,
            cut=frozenset(cut),
            next_due=self._withdrawals.next_due(now),
            besides=besides,
            given_up=frozenset(self._given_up),
        )

    def _lacks_dry_run(self, uid: str, job: DecidedJob) -> bool:
        """Return whether a dry run of a job's pods is needed before it can have nodes."""
        # A job that is left out would take its former placement, still in its status, again.
        placed = job.placed and uid not in self._given_up
        is_asked = self._needs_dry_runs and not placed and not any(job.pods.values())
        return is_asked and not self._dry_runs.have_passed(uid, job.generation)

    def _holders(
        self, jobs: Mapping[str, JobInfo], held: Mapping[str, NodeList]
    ) -> Iterator[Holder]:
        for job in self._ours.values():
            key = job.known.info.key
            if key not in jobs:
                continue
            info = jobs[key]
            priority = job.priority if info.preemptible else UNTOUCHED
            yield Holder(priority=priority, urgency=info.priority, job=info, held=held[key])

    def _look_at(self, uid: str, now: datetime) -> None:
        """Read a job and its pods again."""
        pods = tuple(self._pods.get(uid, {}).values())
        self._ours.pop(uid, None)
        self._rests.pop(uid, None)
        self._unreadable.pop(uid, None)
        job, departed = self._jobs.get(uid), self._departed.get(uid)
        self._pool.staying.put(uid, ())
        self._pool.passing.put(uid, ())
        self._pool.unknown.put(uid, ())
        self._besides.put(uid, ())
        self._own.put(uid, ())
        self._reservations.put_job(uid, ())
        if job is not None:
            # Its fields may be packed, and are read several times.
            job = dict(job)
            # Ended jobs are skipped, because reading a spec takes time and there are thousands of
            # them.
            if pods or asks_for_nodes(job):
                self._read(uid, job, pods, now)
            else:
                self._reports.forget(uid)
                self._withdrawals.forget(uid)
                self._dry_runs.forget(uid)
        elif departed is not None:
            if pods:
                self._read_departed(uid, departed, pods)
            else:
                del self._departed[uid]
        else:
            # Their job, which has their requests, was deleted before this process knew it.
            self._pool.unknown.put(uid, without_requests(pods))

    def _read(self, uid: str, job: Object, pods: Collection[Object], now: datetime) -> None:
        try:
            status = Status.read(job.get("status"))
            if not is_placed(status.placement):
                self._given_up.discard(uid)
            if (spec := _spec(job, self._read_spec)) is None:
                if pods or is_placed(status.placement):
                    spec = with_growth(spec_of_pods(job), status.ledger)
                    self._reckon_with(uid, job, spec, status, read_own_pods(pods, job, spec))
                return
            spec = within_admitted(with_growth(spec, status.ledger), status.raw.get("admitted"))
            own = read_own_pods(pods, job, spec)
            why = self._failing.why(uid)
            if why is not None or not is_ours(job, spec, status, own):
                self._reckon_with(uid, job, spec, status, own)
                self._keep_for_gang(uid, job, spec, status, own)
                if why is not None:
                    left_out = Unreadable.of(KIND, job, why)
                    self._unreadable.setdefault(uid, {})[uid] = left_out
                return
            report = self._reports.read(uid, (job.get("status") or {}).get("profilings"))
            known = read_job(
                job, spec, report=report, high_priority_class=self._high_priority_class
            )
            placement = status.placement or {}
            placed = NodeList.of({task.name: placement.get(task.name, ()) for task in spec.tasks})
            # Compute the time-dependent values once: what fails must fail here, not in a round.
            known.at(now, held=placed, attained=status.attained(now))
        except Exception as error:
            # Any failure concerns one job; a policy's or field's error must not spread to all
            # jobs.
            self._unreadable[uid] = {uid: Unreadable.of(KIND, job, reason_of(error))}
            self._pool.staying.put(uid, without_requests(pods))
            return
        self._ours[uid] = DecidedJob(
            known=known,
            generation=job["metadata"].get("generation"),
            status=status,
            placed=placed,
            present=own.present,
            priority=own.priority or 0,
            avoided=status.ledger.avoided(),
        )
        self._withdrawals.see(uid, placed, self._ours[uid].pods)
        takes = (*own.staying, *own.ending)
        self._pool.passing.put(uid, takes)
        namespace = job["metadata"]["namespace"]
        self._own.put(uid, [(namespace, each) for _, each in takes])
        self._name(uid, own)

    def _read_departed(self, uid: str, job: Object, pods: Iterable[Object]) -> None:
        try:
            spec = _spec(job, self._read_spec) or spec_of_pods(job)
            ledger = Status.read(job.get("status")).ledger
            own = read_own_pods(pods, job, with_growth(spec, ledger))
            self._pool.passing.put(uid, (*own.staying, *own.ending))
            self._name(uid, own)
        except Exception as error:
            self._unreadable[uid] = {uid: Unreadable.of(KIND, job, reason_of(error))}

    def _reckon_with(
        self, uid: str, job: Object, spec: JobSpec, status: Status, own: OwnPods
    ) -> None:
        self._name(uid, own)
        if gives_way(job, spec, status):
            if spec.preemptible and spec.suspend and is_placed(status.placement):
                self._given_up.add(uid)
            self._pool.passing.put(uid, (*own.staying, *own.ending))
            return
        staying = own.staying
        if spec.preemptible:
            # The lifecycle creates its pods where the last assignment has them.
            staying = [*staying, *assigned(spec, status.placement or {}, own)]
        self._pool.staying.put(uid, staying)
        self._pool.passing.put(uid, own.ending)
        self._count_besides(uid, job, [taken for _, taken in staying])
        # The rest of a gang gets reserved capacity whatever its priority is.
        if not spec.scheduling.gang:
            self._reservations.put_job(uid, own.refused)

    def _keep_for_gang(
        self, uid: str, job: Object, spec: JobSpec, status: Status, own: OwnPods
    ) -> None:
        is_gang = spec.scheduling.gang and not spec.preemptible
        gone = status.is_finished or gives_way(job, spec, status)
        if not is_gang or gone or not was_let_go(status, own):
            return
        known = read_job(job, spec, report=None)
        rest = rest_of(known.info, status, own)
        if rest.tasks:
            self._rests[uid] = replace(known, info=rest)
            kept = asked_by(rest, {task.name: task.replicas for task in rest.tasks})
            self._count_besides(uid, job, [*(taken for _, taken in own.staying), kept])

    def _count_besides(self, uid: str, job: Object, taken: Iterable[Resources]) -> None:
        """Count, to its namespace, what a job has that the allocator does not decide on."""
        namespace = job["metadata"]["namespace"]
        if namespace in self._queues.by_namespace:
            self._besides.put(uid, [(namespace, each) for each in taken])

    def _name(self, uid: str, own: OwnPods) -> None:
        if own.unreadable:
            self._unreadable[uid] = own.unreadable


def _spec(job: Object, read_spec: ReadSpec) -> JobSpec | None:
    try:
        return read_spec(job)
    except InvalidSpec:
        return None
