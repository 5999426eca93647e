"""The loop of the allocator: reads the cluster, calls the policy, and assigns nodes step by step.

A grant is the allocator's assignment of nodes to one job. The lifecycle makes it the job's
placement and moves the pods. Everything slow (reading, the policy, `granting`) runs in a thread.
The event loop, which renews the lease, only records changes and publishes assignments. No state is
lost with this object: assignments are in the status of jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Set
from dataclasses import replace
from decimal import Decimal
from math import inf
from typing import Any, Final, Protocol

import structlog

from di_api.expected_completion import ExpectedCompletion
from di_api.field_error import InvalidSpec, mapping
from di_api.names import KIND
from di_api.ownership import is_controlled_by
from di_kube.cache import WatchCache
from di_kube.resources import DIJOBS, NODES, PODS, Resource
from di_operator.allocator.forecast.cluster_snapshot import Look
from di_operator.allocator.grants.empty_cluster import EmptyCluster
from di_operator.allocator.grants.granting import NOTHING_SAID, Step, Word, Words
from di_operator.allocator.grants.queue_report import by_amount, queue_states
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes, News, asks_for_nodes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.inventory import Unreadable
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.rounds.budgets import interval
from di_operator.allocator.sharing.queues import queues_of
from di_operator.allocator.sizing.present_goodput import present_goodput
from di_operator.allocator.withdrawals.withdrawals import KeptOut, RefusedWrite
from di_operator.allocator_round import CallObserver, Round
from di_operator.cluster.informer_state import INDEX_JOB, index_value
from di_operator.cluster.largest_node import LargestNode
from di_operator.cluster.quotas import QuotaWatch
from di_operator.lifecycle.observed.placement import Grant, is_placed, read_placement
from di_operator.lifecycle.observed.specs import SpecReader
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.process.clock import Clock
from di_operator.process.controller import JobKey
from di_operator.process.supervision import Duty

log = structlog.get_logger(__name__)

Object = Mapping[str, Any]

_NO_WORD_YET: Final = "waiting for the allocator"
# Seconds to collect further changes after a first one: jobs arrive in batches, and the loss of a
# node changes many pods.
SETTLE = 0.2


class Observer(CallObserver, Protocol):
    """The metrics that the scheduler updates; `allocated` is called from another thread."""

    def unreadable(self, kind: str, number: int) -> None:
        """Set the number of objects of a kind that are currently ignored."""
        ...

    def queues(self, amounts: Mapping[tuple[str, str, str], float]) -> None:
        """Set the amounts of the namespaces' queues, by namespace, resource and amount."""
        ...


class Scheduler:
    """Runs one allocation policy for all jobs; only the leader runs it."""

    def __init__(
        self,
        *,
        policy: Policy,
        caches: Mapping[Resource, WatchCache],
        nodes: WatchCache,
        others: WatchCache,
        quotas: QuotaWatch | None = None,
        read_spec: SpecReader,
        wake: Callable[[JobKey, float], None],
        period: float,
        clock: Clock,
        observer: Observer,
        kind_label: str | None = None,
        forecaster: Policy | None = None,
        needs_dry_runs: bool = False,
        high_priority_class: str | None = None,
    ) -> None:
        """Prepare the scheduler; nothing is read yet.

        Args:
            caches: DIJobs and their pods.
            nodes, others: the nodes, and all other pods of the cluster.
            quotas: checked before an assignment; None: quotas are not checked.
            period: seconds between two reallocations of all jobs.
            kind_label: the node label whose value is the node type; None: all nodes have one type.
            forecaster: a second policy object, which keeps its own state, for the expected starts
                of waiting jobs; None: no forecast.
            needs_dry_runs: whether a job gets nodes only after `dry_run_passed` was called for its
                spec.
            high_priority_class: of the pods of jobs with high priority, for quotas with scopes.
        """
        self._high_priority_class = high_priority_class
        self._needs_dry_runs = needs_dry_runs
        self._policy = policy
        self._round = Round(
            policy=policy,
            forecaster=forecaster,
            period=period,
            monotonic=clock.monotonic,
            observer=observer,
        )
        self._caches = caches
        self._nodes = nodes
        self._others = others
        self._quotas = quotas
        self._read_spec = read_spec
        self._kind_label = kind_label
        self._wake = wake
        self._period = period
        self._clock = clock
        self._observer = observer
        self._changed = asyncio.Event()
        self._news = News(monotonic=clock.monotonic)
        # Exists only while a job requests nodes.
        self._reader: ClusterReader | None = None
        self._words: Words = NOTHING_SAID
        # By UID: the objects that the last round could not read.
        self._unreadable: Mapping[str, Unreadable] = {}
        # By UID: the expected starts of waiting jobs.
        self._starts: Mapping[str, ExpectedCompletion] = {}
        self._seen: SchedulingSnapshot | None = None
        # By UID: the jobs whose assignment was withdrawn.
        self._kept_out: Mapping[str, KeptOut] = {}
        self._largest = LargestNode()
        nodes.subscribe(self._largest.listen)
        self._empty = EmptyCluster()
        nodes.subscribe(self._empty.listen)
        for cache, listen in (
            (caches[DIJOBS], self._news.on_job),
            (nodes, self._news.on_node),
            (caches[PODS], self._news.on_pod),
            (others, self._news.on_other),
        ):
            cache.subscribe(self._listener(listen))
        if quotas is not None:
            quotas.subscribe(self._listener(self._news.on_quota))

    def grant(self, job: Object) -> Grant:
        """Return the allocator's present assignment for a job."""
        uid = job["metadata"]["uid"]
        if (kept := self._kept_out.get(uid)) is not None:
            return Grant(
                placement={} if kept.preemptible else None,
                reason=Reason.GRANT_WITHDRAWN,
                message=kept.message,
            )
        word = self._words.get(uid)
        if self._lacks_dry_run(job, word):
            return Grant(
                # A job that was preempted before has to give up the placement in its status.
                placement=self._no_word(job).placement if word is None else word.grant.placement,
                reason=Reason.WAITING_FOR_NODES,
                message=_NO_WORD_YET,
                needs_dry_run=uid not in self._news.answered,
            )
        if word is not None:
            start = None if word.has else self._starts.get(uid)
            return word.grant if start is None else replace(word.grant, expected_start=start)
        if (left_out := self._unreadable.get(uid)) is not None:
            message = f"cannot be allocated: {left_out.reason}"
            return Grant(reason=Reason.NOT_ALLOCATABLE, message=message)
        return self._no_word(job)

    def _no_word(self, job: Object) -> Grant:
        try:
            spec = self._read_spec(job)
        except InvalidSpec:
            return Grant()
        if self._has_given_up(job) and not spec.suspend:
            return Grant(placement={}, reason=Reason.WAITING_FOR_NODES, message=_NO_WORD_YET)
        if spec.scheduling.gang and not spec.preemptible:
            return Grant(reason=Reason.WAITING_FOR_NODES, message=_NO_WORD_YET)
        return Grant()

    def _has_given_up(self, job: Object) -> bool:
        """Return whether others can have the nodes that the status of a job still shows."""
        return self._seen is not None and job["metadata"]["uid"] in self._seen.given_up

    def _lacks_dry_run(self, job: Object, word: Word | None) -> bool:
        """Return whether the API server has to check a job's pods in a dry run before the job gets
        nodes.
        """
        metadata = job["metadata"]
        if not self._needs_dry_runs or not asks_for_nodes(job):
            return False
        placement = mapping(job.get("status")).get("placement")
        is_held = is_placed(read_placement(placement)) and not self._has_given_up(job)
        has = is_held if word is None else word.has
        return not has and not self._news.dry_runs.have_passed(
            metadata["uid"], metadata.get("generation")
        )

    def dry_run_passed(self, job: Object) -> None:
        """Record that the API server would accept the pods of a job's spec."""
        metadata = job["metadata"]
        if self._news.on_dry_run(metadata["uid"], metadata.get("generation")):
            self._changed.set()

    def refused(
        self, job: JobKey, message: str, *, is_of_server: bool, is_dry_run: bool = False
    ) -> None:
        """Record that the API server refused a write for a job, or failed on it (5xx)."""
        found = self._caches[DIJOBS].get(job.namespace, job.name)
        if found is None:
            return
        write = RefusedWrite(
            uid=found["metadata"]["uid"],
            key=f"{job.namespace}/{job.name}",
            message=message,
            at=self._clock.now(),
            is_of_server=is_of_server,
            generation=found["metadata"].get("generation"),
            is_dry_run=is_dry_run,
        )
        if self._news.on_refused(write):
            self._changed.set()

    def goodput(self, key: str, uid: str) -> float | None:
        """Return the measured goodput of a job, in samples of its initial batch per second; None
        without a measurement. Safe in any thread, because the data it reads is replaced and never
        modified.
        """
        seen, word = self._seen, self._words.get(uid)
        info = seen.jobs.get(key) if seen else None
        if seen is None or word is None or info is None:
            return None
        return present_goodput(info, word.has, seen.nodes)

    def largest_node_memory(self) -> Decimal | None:
        """Return the allocatable memory of the largest node in bytes; None until all nodes are
        known.
        """
        return self._largest.memory() if self._nodes.synced.is_set() else None

    def node_names(self) -> Container[str] | None:
        """Names of the cluster's nodes; None: not all are known."""
        return self._largest.names if self._nodes.synced.is_set() else None

    def could_run(self, job: Object) -> bool:
        """Return whether the cluster without any other pod could run a job; False until all nodes
        are known.
        """
        if not self._nodes.synced.is_set():
            return False
        try:
            spec = self._read_spec(job)
        except InvalidSpec:
            return False
        return self._empty.could_run(job, spec)

    @property
    def duties(self) -> Mapping[str, Duty]:
        """Return the tasks that must run for the allocator to work, by name."""
        return {
            "watch nodes": self._nodes.run,
            "watch other pods": self._others.run,
            "allocator": self.run,
            **({"watch quotas": self._quotas.run} if self._quotas is not None else {}),
        }

    async def run(self) -> None:
        """Allocate until cancelled; the watches of `duties` must run at the same time."""
        for cache in (self._nodes, self._others, *self._caches.values()):
            await cache.synced.wait()
        # A round that failed may have missed the change that started it, and its thread may still
        # be using the reader.
        self._news.everything = True
        self._news.departed = self._news.departed or {}
        self._put_down()
        await self._schedule()

    async def _schedule(self) -> None:
        reconsidered, took = -inf, 0.0
        while True:
            # Cleared before reading and not after: a change that arrives while the policy runs must
            # start another round.
            self._changed.clear()
            self._forget_departed()
            if not self._news.asking:
                self._put_down()
                self._words, self._starts, self._seen = NOTHING_SAID, {}, None
                self._kept_out, self._news.kept_out = {}, frozenset()
                await self._next_change(self._period, SETTLE)
                continue
            passed = self._clock.monotonic() - reconsidered
            pause = interval(self._period, took) if self._news.everything else self._period
            everything = passed >= pause
            if everything:
                self._news.everything = False
                reconsidered = self._clock.monotonic()
            look = Look(
                reader=self._take_up(),
                changes=self._news.drain(),
                words=self._words,
                now=self._clock.now(),
                everything=everything,
                over=self._news.budgets.over(self._clock.monotonic()),
            )
            began = self._clock.monotonic()
            found = await asyncio.to_thread(self._round.run, look)
            # A refusal of an earlier spec excludes no job: its present spec gets a dry run of its
            # own.
            answered = (self._news.answered.pop(each.uid, "") for each in look.changes.refused)
            self._tell(*found, answered={key for key in answered if key})
            lasted = self._clock.monotonic() - began
            if everything:
                took = lasted
            pause = interval(self._period, took) if self._news.everything else self._period
            left = reconsidered + pause - self._clock.monotonic()
            # The thread pauses for as long as it has worked, however many changes arrive.
            await self._next_change(max(min(left, self._due_in()), SETTLE), max(lasted, SETTLE))

    def _due_in(self) -> float:
        """Return the seconds until an assignment is due to be withdrawn, or a job to be tried
        again.
        """
        due = self._seen.next_due if self._seen is not None else None
        return inf if due is None else (due - self._clock.now()).total_seconds()

    async def _next_change(self, seconds: float, rest: float) -> None:
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleep, change), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            change.cancel()
        await self._clock.sleep(rest)

    def _forget_departed(self) -> None:
        departed = self._news.departed or {}
        for uid in [uid for uid, job in departed.items() if not self._has_pods(job)]:
            del departed[uid]

    def _has_pods(self, job: Object) -> bool:
        metadata = job["metadata"]
        place = index_value(metadata["namespace"], metadata["name"])
        pods = self._caches[PODS].by_index(INDEX_JOB, place)
        return any(is_controlled_by(pod, metadata["uid"]) for pod in pods)

    def _take_up(self) -> ClusterReader:
        """Return the reader; a new one is filled with all known objects."""
        if self._reader is None:
            self._reader = ClusterReader(
                self._read_spec,
                kind_label=self._kind_label,
                queues=queues_of(self._policy),
                needs_dry_runs=self._needs_dry_runs,
                high_priority_class=self._high_priority_class,
            )
            self._news.begin(
                Changes.all(
                    jobs=self._caches[DIJOBS].items(),
                    departed=(self._news.departed or {}).values(),
                    nodes=self._nodes.items(),
                    pods=self._caches[PODS].items(),
                    others=self._others.items(),
                    quotas=self._quotas.items() if self._quotas is not None else (),
                    dry_runs=self._news.dry_runs.items(),
                )
            )
        return self._reader

    def _put_down(self) -> None:
        self._reader = None
        self._news.end()

    def _tell(
        self,
        snapshot: SchedulingSnapshot,
        done: Step,
        starts: Mapping[str, ExpectedCompletion] | None,
        *,
        answered: Set[str],
    ) -> None:
        self._words, self._seen = done.words, snapshot
        told = {*done.told, *answered, *self._note_withdrawn(snapshot)}
        if starts is not None:
            before, self._starts = self._starts, starts
            told |= {
                key for key, uid in snapshot.uids.items() if before.get(uid) != starts.get(uid)
            }
        # A set of words has another order in each process; what follows is reproducible so.
        for key in sorted(told):
            self._wake(JobKey(*key.split("/", 1)), 0.0)
        self._name_unreadable(snapshot.unreadable)
        if queues := queues_of(self._policy):
            self._observer.queues(by_amount(queue_states(queues, snapshot)))

    def _note_withdrawn(self, snapshot: SchedulingSnapshot) -> set[str]:
        """Offer nodes that were taken back to all jobs; return the keys of the jobs whose
        assignment changed.
        """
        before, now = self._kept_out, snapshot.kept_out
        changed = {uid for uid in {*before, *now} if before.get(uid) != now.get(uid)}
        if snapshot.cut or not changed.isdisjoint(now):
            self._news.everything = True
            self._changed.set()
        for uid in changed & now.keys():
            self._news.dry_runs.forget(uid)
            log.info("grant withdrawn", job=now[uid].key, message=now[uid].message)
        self._kept_out, self._news.kept_out = now, now.keys()
        return {(now.get(uid) or before[uid]).key for uid in changed}

    def _name_unreadable(self, unreadable: Mapping[str, Unreadable]) -> None:
        """Log each ignored object once with the reason, and wake its job."""
        before, now = self._unreadable.items(), unreadable.items()
        for uid, found in now - before:
            log.warning("an object cannot be read", uid=uid, **found._asdict())
        changed = {JobKey(one.namespace, one.name) for _, one in now ^ before if one.kind == KIND}
        for kind in (KIND, PODS.kind, NODES.kind):
            self._observer.unreadable(kind, sum(one.kind == kind for one in unreadable.values()))
        self._unreadable = unreadable
        for key in changed:
            self._wake(key, 0.0)

    def _listener(self, listen: Callable[[str, Object], bool]) -> Callable[[str, Object], None]:
        def told(kind: str, body: Object) -> None:
            if listen(kind, body):
                self._changed.set()

        return told
