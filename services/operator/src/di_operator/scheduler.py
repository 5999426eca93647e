"""Runs the allocator: reads the cluster, asks the policy, and grants what it says step by step.

A grant is the allocator's word on one job; the lifecycle makes it the job's placement and moves
the pods. What a policy decides is granted at once where the room is free. Where the pods of others
still hold it, they are told to leave first, and the grant follows when they are gone: a kubelet
refuses a pod that comes too early. Nothing is lost with this object: what jobs have been given is
in their status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import structlog

from di_api.field_error import InvalidSpec, mapping
from di_api.kube.cache import WatchCache
from di_api.kube.resources import DIJOBS, NODES, PODS, Resource
from di_api.names import KIND
from di_operator.allocator.admit import in_order
from di_operator.allocator.culprits import find_culprits
from di_operator.allocator.inventory import Unreadable
from di_operator.allocator.job import WAIT, NodeList
from di_operator.allocator.plan import make_plan
from di_operator.allocator.policy import Policy
from di_operator.allocator.scheduling_snapshot import (
    SchedulingSnapshot,
    asks_for_nodes,
    leave_capacity,
    read_scheduling_snapshot,
    reduced,
)
from di_operator.allocator.shortage import find_shortage
from di_operator.clock import Clock
from di_operator.controller import JobKey
from di_operator.lifecycle.placement import Grant
from di_operator.lifecycle.pods import is_finished
from di_operator.lifecycle.reasons import Reason
from di_operator.lifecycle.specs import SpecReader
from di_operator.supervision import Duty

log = structlog.get_logger(__name__)

Object = Mapping[str, Any]

# Seconds to wait for company after a change: jobs come in batches, and a node that goes takes
# many pods along.
SETTLE = 0.2


class Observer(Protocol):
    """What the scheduler tells the metrics."""

    def allocated(self, call: str, result: str, seconds: float) -> None:
        """Count one call of the policy (`allocate`, `optimize`), its result and duration."""
        ...

    def unreadable(self, kind: str, number: int) -> None:
        """Set how many objects of a kind are left out at present."""
        ...


class Scheduler:
    """One policy at work on all jobs; run it on the leader alone."""

    def __init__(
        self,
        *,
        policy: Policy,
        caches: Mapping[Resource, WatchCache],
        nodes: WatchCache,
        others: WatchCache,
        read_spec: SpecReader,
        wake: Callable[[JobKey, float], None],
        period: float,
        clock: Clock,
        observer: Observer,
    ) -> None:
        """`caches` hold DIJobs and their pods, `nodes` and `others` the nodes and all other pods
        of the cluster.

        `period` is the time in seconds between two reconsiderations of all jobs.
        """
        self._policy = policy
        self._caches = caches
        self._nodes = nodes
        self._others = others
        self._read_spec = read_spec
        self._wake = wake
        self._period = period
        self._clock = clock
        self._observer = observer
        self._changed = asyncio.Event()
        self._everything = True
        # By UID: what is decided, what of it is granted, and what the jobs are told.
        self._decided: dict[str, NodeList] = {}
        self._granted: dict[str, NodeList] = {}
        self._grants: dict[str, Grant] = {}
        self._seen: dict[str, object] = {}
        # By UID: what the last look could not read.
        self._unreadable: Mapping[str, Unreadable] = {}
        # By UID: jobs that the policy failed on, in which version, and why.
        self._rejected: dict[str, tuple[object, str]] = {}
        # UIDs of the jobs that may want something. Without any, all pods of the cluster come and
        # go without being looked at.
        self._asking: set[str] = set()
        # Jobs that are gone, by UID, until the last of their pods is. What these take of their
        # nodes is known from the job alone.
        self._departed: dict[str, Object] = {}
        caches[DIJOBS].subscribe(self._on_job)
        nodes.subscribe(self._on_node)
        caches[PODS].subscribe(self._on_pod)

    def grant(self, job: Object) -> Grant:
        """Return the allocator's present word on a job."""
        uid = job["metadata"]["uid"]
        known = self._grants.get(uid)
        if known is not None:
            return known
        if (left_out := self._unreadable.get(uid)) is not None:
            message = f"cannot be allocated: {left_out.reason}"
            return Grant(reason=Reason.NOT_ALLOCATABLE, message=message)
        try:
            spec = self._read_spec(job)
        except InvalidSpec:
            return Grant()
        if spec.scheduling.gang and not spec.preemptible:
            return Grant(reason=Reason.WAITING_FOR_NODES, message="waiting for the allocator")
        return Grant()

    @property
    def duties(self) -> Mapping[str, Duty]:
        """What has to be kept running for the allocator to work, by name."""
        return {
            "watch nodes": self._nodes.run,
            "watch other pods": self._others.run,
            "allocator": self.run,
        }

    async def run(self) -> None:
        """Allocate until cancelled; the watches of `duties` must run beside it."""
        for cache in (self._nodes, self._others, *self._caches.values()):
            await cache.synced.wait()
        # A round that ended in an error may have missed what it was woken for.
        self._everything = True
        await self._schedule()

    async def _schedule(self) -> None:
        reconsidered = -self._period
        while True:
            # Before the look and not after it: what changes while the policy thinks is news.
            self._changed.clear()
            self._forget()
            if not self._asking:
                await self._next_change(self._period)
                continue
            snapshot = self._read()
            everything = self._everything or (
                self._clock.monotonic() - reconsidered >= self._period
            )
            if everything:
                self._everything = False
                reconsidered = self._clock.monotonic()
                snapshot = await self._reconsider(snapshot)
            else:
                await self._admit(snapshot)
            self._publish(snapshot, explain=everything)
            left = reconsidered + self._period - self._clock.monotonic()
            await self._next_change(max(left, SETTLE))

    async def _next_change(self, seconds: float) -> None:
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleep, change), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            change.cancel()
        await self._clock.sleep(SETTLE)

    def _forget(self) -> None:
        """Drop what is known of jobs that nothing can be said about any more."""
        pods = self._caches[PODS]
        for uid in [uid for uid in self._departed if not pods.by_owner(uid)]:
            del self._departed[uid]
        for known in (self._grants, self._granted, self._decided):
            for uid in known.keys() - self._asking:
                del known[uid]

    def _read(self) -> SchedulingSnapshot:
        jobs = self._caches[DIJOBS].items()
        versions = {job["metadata"]["uid"]: _version(job) for job in jobs} if self._rejected else {}
        self._rejected = {
            uid: (version, why)
            for uid, (version, why) in self._rejected.items()
            if versions.get(uid) == version
        }
        snapshot = read_scheduling_snapshot(
            jobs=jobs,
            departed=self._departed.values(),
            pods=self._caches[PODS].items(),
            others=self._others.items(),
            nodes=self._nodes.items(),
            granted=self._granted,
            rejected={uid: why for uid, (_, why) in self._rejected.items()},
            read_spec=self._read_spec,
            now=self._clock.now(),
        )
        self._name_unreadable(snapshot.unreadable)
        # Who is not looked after any more has nothing left to be told: a gang that is bound, a job
        # that ended or was suspended.
        for uid in self._grants.keys() - snapshot.uids.values():
            for known in (self._grants, self._granted, self._decided):
                known.pop(uid, None)
        return snapshot

    def _name_unreadable(self, unreadable: Mapping[str, Unreadable]) -> None:
        """Say once of each object that it is left out, and why; jobs are told to look."""
        before, now = self._unreadable.items(), unreadable.items()
        for uid, found in now - before:
            log.warning("an object cannot be read", uid=uid, **found._asdict())
        changed = {JobKey(one.namespace, one.name) for _, one in now ^ before if one.kind == KIND}
        for kind in (KIND, PODS.kind, NODES.kind):
            self._observer.unreadable(kind, sum(one.kind == kind for one in unreadable.values()))
        self._unreadable = unreadable
        for key in changed:
            self._wake(key, 0.0)

    async def _reconsider(self, snapshot: SchedulingSnapshot) -> SchedulingSnapshot:
        """Decide about all jobs anew; returns the snapshot without those the policy failed on."""
        answer = await self._optimize(snapshot)
        if answer is None and await self._set_culprits_aside(snapshot):
            snapshot = self._read()
            answer = await self._optimize(snapshot)
        if answer is None:
            await self._admit(snapshot)
        else:
            self._decide(snapshot, answer)
        return snapshot

    async def _optimize(self, snapshot: SchedulingSnapshot) -> Any:
        ask = partial(self._policy.optimize, snapshot.jobs, snapshot.nodes, snapshot.held)
        return await self._ask("optimize", ask)

    async def _set_culprits_aside(self, snapshot: SchedulingSnapshot) -> bool:
        """Leave out the jobs that the policy fails on, until they change; False if none is."""
        culprits = await asyncio.to_thread(
            find_culprits, self._policy, snapshot.jobs, snapshot.nodes, snapshot.held
        )
        by_uid = {snapshot.uids[key]: why for key, why in culprits.items()}
        for job in self._caches[DIJOBS].items():
            if (why := by_uid.get(job["metadata"]["uid"])) is not None:
                self._rejected[job["metadata"]["uid"]] = _version(job), why
        return bool(culprits)

    async def _admit(self, snapshot: SchedulingSnapshot) -> None:
        """Place the jobs that have come since; those that already wait are not asked for again."""
        for job in in_order(snapshot.jobs):
            uid = snapshot.uids[job.key]
            if uid in self._decided or snapshot.held[job.key]:
                continue
            ask = partial(self._policy.allocate, job, leave_capacity(snapshot))
            wants = await self._ask("allocate", ask)
            if wants is not None:
                self._decide(snapshot, {job.key: wants})
                snapshot = replace(snapshot, held={**snapshot.held, job.key: self._decided[uid]})

    async def _ask(self, call: str, ask: Callable[[], Any]) -> Any:
        """Call the policy beside the event loop; None if it fails, which may be a user's own."""
        began = self._clock.monotonic()
        try:
            answer = await asyncio.to_thread(ask)
        except Exception:
            log.exception("the policy failed", call=call)
            self._observer.allocated(call, "error", self._clock.monotonic() - began)
            return None
        self._observer.allocated(call, "ok", self._clock.monotonic() - began)
        return answer

    def _decide(self, snapshot: SchedulingSnapshot, answer: Mapping[str, NodeList]) -> None:
        plan = make_plan(answer, snapshot.jobs, snapshot.nodes, snapshot.held)
        for key, reason in plan.refused.items():
            log.warning("the policy's answer was put aside", job=key, reason=reason)
        for key, change in plan.changes.items():
            log.info("decided", job=key, change=str(change), replicas=len(plan.allocations[key]))
        for key, wants in plan.allocations.items():
            self._decided[snapshot.uids[key]] = wants

    def _publish(self, snapshot: SchedulingSnapshot, *, explain: bool) -> None:
        """Grant what is decided as far as there is room for it at this moment.

        With `explain`, those that wait are told anew why.
        """
        given: list[str] = [key for key, held in snapshot.held.items() if held]
        for job in in_order(snapshot.jobs):
            key, uid = job.key, snapshot.uids[job.key]
            wants = self._decided.get(uid)
            if wants is None:
                continue
            held = snapshot.held[key]
            if not wants and not held and uid in self._grants and not explain:
                continue
            if not wants:
                self._tell(snapshot, key, WAIT)
            elif wants == held or snapshot.fits_now(key, wants, given):
                self._tell(snapshot, key, wants)
                given.append(key)
            else:
                self._tell(snapshot, key, reduced(snapshot, key, wants))

    def _tell(self, snapshot: SchedulingSnapshot, key: str, nodes: NodeList) -> None:
        job, uid = snapshot.jobs[key], snapshot.uids[key]
        reason: Reason | None = None
        message = ""
        if not nodes:
            shortage = find_shortage(job, snapshot.nodes)
            reason = Reason.UNSCHEDULABLE if shortage else Reason.WAITING_FOR_NODES
            message = shortage.message if shortage else "waiting for nodes that other jobs have"
        placement = dict(nodes.tasks) if job.preemptible else None
        grant = Grant(placement=placement, reason=reason, message=message)
        self._granted[uid] = nodes
        if grant != self._grants.get(uid):
            self._grants[uid] = grant
            self._wake(JobKey(*key.split("/", 1)), 0.0)

    def _on_job(self, kind: str, job: Object) -> None:
        uid = job["metadata"]["uid"]
        if kind == "DELETED":
            self._departed[uid] = job
        asks = kind != "DELETED" and asks_for_nodes(job)
        if asks:
            self._asking.add(uid)
        else:
            self._asking.discard(uid)
        finished = mapping(job.get("status")).get("completionTimestamp") is not None
        # Reports and phases on the way change nothing about who may have what.
        now = None if kind == "DELETED" else (job["metadata"].get("generation"), finished)
        self._note(uid, now, is_arrival=uid not in self._seen)

    def _on_node(self, kind: str, node: Object) -> None:
        status, spec = node.get("status") or {}, node.get("spec") or {}
        conditions = status.get("conditions") or ()
        ready = [c.get("status") for c in conditions if c.get("type") == "Ready"]
        labels = node["metadata"].get("labels")
        now = [status.get("allocatable"), spec.get("taints"), spec.get("unschedulable"), ready]
        self._note(node["metadata"]["uid"], None if kind == "DELETED" else [*now, labels])

    def _on_pod(self, kind: str, pod: Object) -> None:
        # A pod that goes makes room, a kubelet that refuses one has less than was thought.
        refused = str((pod.get("status") or {}).get("reason") or "").startswith("OutOf")
        if refused:
            self._everything = True
        if self._asking and (kind == "DELETED" or is_finished(pod)):
            self._changed.set()

    def _note(self, uid: str, now: object, *, is_arrival: bool = False) -> None:
        if now is None:
            if self._seen.pop(uid, None) is None:
                return
        elif self._seen.get(uid) == now:
            return
        else:
            self._seen[uid] = now
        self._everything |= not is_arrival
        self._changed.set()


def _version(job: Object) -> object:
    """What of a job a policy's answer may depend on: its spec and its reports."""
    return job["metadata"].get("generation"), mapping(job.get("status")).get("profilings")
