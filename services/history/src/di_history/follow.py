"""Follows jobs, their pods and Events, and passes on the changes.

A thin shell: `changes` decides what a watch event means. It only reads from the cluster, so nothing
waits for it. What it misses while it is down, it fills in from the objects and Events that still
exist, and it marks the rest as a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from di_api.field_error import mapping
from di_api.names import KIND, LABEL_OPERATOR, OPERATOR_NAME
from di_api.ownership import controller_uid
from di_api.wording import describe
from di_history.changes.events import event_entry, left_out_entry, subject
from di_history.changes.jobs import first_sight_gap, gap, job_changes, job_gone, uid_of
from di_history.changes.pods import (
    LogWanted,
    logs_wanted,
    placement_changes,
    placement_gone,
    trimmed,
)
from di_history.changes.snapshot import snapshot_of
from di_history.ended_logs import LogReader
from di_history.metrics import Metrics
from di_history.node_kinds import NodeKinds
from di_history.packing import from_json, pack, to_json, unpack
from di_history.records import Entry, Millis, Placement, Put
from di_history.subjects import Budgets, Early, Subjects
from di_history.uploads import Uploads
from di_history.waiting import size_of, weight
from di_kube.backoff import Backoff
from di_kube.cache import DELETED, UNREADABLE, Transform, WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Gone, Silent
from di_kube.resources import DIJOBS, EVENTS, NODES, PODS, Resource

_log = structlog.get_logger()

Object = dict[str, Any]
_STREAM_SECONDS: Final = 300
_FILL_IN_SECONDS: Final = 1.0
_FILLED_IN_AT_ONCE: Final = 200
_AWAY: Final = 60_000
"""Milliseconds without a mark after which changes may have been missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Data that was written before this process began.

    Attributes:
        jobs: snapshots by UID, packed, of jobs that are not known to be deleted.
        placed: placements without a known end.
        followed: time until which everything was written; None: never.
    """

    jobs: Mapping[str, bytes]
    placed: Iterable[Mapping[str, Any]]
    followed: Millis | None


class Follower:
    """Follows the cluster once, from the known data until an error.

    Args:
        put: accepts records.
        lost: returns up to so many jobs that lost records before the database.
        resume: makes `put` accept records of these jobs again.
        recall: returns the written data of these jobs; called in a thread.
        has_log: returns whether a log is already kept; called in a thread.
        price_label: label of nodes whose value is recorded with each placement; empty: none.
        uploads: accepts whole logs of this run; None: none are kept.
        now: milliseconds.
    """

    def __init__(
        self,
        *,
        config: KubeConfig,
        namespace: str | None,
        known: Known,
        put: Put,
        lost: Callable[[int], list[str]],
        resume: Callable[[Iterable[str]], None],
        recall: Callable[[Collection[str]], Known],
        has_log: Callable[[LogWanted], bool],
        price_label: str,
        log_bytes: int,
        uploads: Callable[[], Uploads | None],
        metrics: Metrics,
        now: Callable[[], Millis],
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._config = config
        self._namespace = namespace
        self._known = known
        self._put = put
        self._lost = lost
        self._resume = resume
        self._recall = recall
        self._has_log = has_log
        self._price_label = price_label
        self._kinds = NodeKinds(price_label)
        self._log_bytes = log_bytes
        self._uploads = uploads
        self._metrics = metrics
        self._now = now
        self._clock = clock
        self._rng = rng
        self._jobs: dict[str, bytes] = dict(known.jobs)
        self._pods: dict[str, Object] = {}
        self._subjects = Subjects()
        self._budgets = Budgets(clock=clock)
        self._early_events = Early[Entry]()
        self._early_pods = Early[tuple[str, Object]]()
        for row in known.placed:
            # Their jobs can be deleted while they end.
            self._subjects.add_gone(row["namespace"], row["job"], row["job"])
            self._kinds.remember(row["node"], row.get("kind") or "")
        self._caches: tuple[WatchCache, ...] = ()
        self._logs: LogReader | None = None
        self._away_since = (
            known.followed
            if known.followed is not None and now() - known.followed > _AWAY
            else None
        )

    def followed(self) -> Millis | None:
        """Return the present time if every change has been passed on; None while a watch is
        disconnected.
        """
        if not self._caches or any(
            not cache.synced.is_set() or cache.away > 0 for cache in self._caches
        ):
            return None
        return self._now()

    async def run(self) -> None:
        """Follow until cancelled; errors of objects and of the API server do not end it."""
        async with KubeClient(config=self._config) as client:
            self._logs = LogReader(
                client=client,
                put=self._put,
                has_log=self._has_log,
                most=self._log_bytes,
                uploads=self._uploads(),
                now=self._now,
                metrics=self._metrics,
            )
            jobs = self._watch(client, DIJOBS, _packed)
            pods = self._watch(client, PODS, trimmed, labels=f"{LABEL_OPERATOR}={OPERATOR_NAME}")
            jobs.subscribe(self._guarded(self._on_job))
            pods.subscribe(self._guarded(self._on_pod))
            async with asyncio.TaskGroup() as group:
                group.create_task(jobs.run())
                ready = [jobs.synced]
                if self._price_label:
                    nodes = self._watch(client, NODES, self._kinds.trimmed)
                    nodes.subscribe(self._guarded(self._kinds.on_node))
                    group.create_task(nodes.run())
                    ready.append(nodes.synced)
                # Otherwise all pods of a large cluster would arrive before their jobs, and beyond a
                # limit be lost until they change. A placement is recorded with its node's label.
                group.create_task(_once(ready, pods.run))
                group.create_task(self._logs.run())
                group.create_task(self._after_absence(jobs, pods))
                group.create_task(self._fill_in(jobs, pods))
                for kind in (KIND, PODS.kind):
                    group.create_task(self._events(client, kind))

    def _watch(
        self, client: KubeClient, resource: Resource, keep: Transform, *, labels: str | None = None
    ) -> WatchCache:
        return WatchCache(
            client,
            resource,
            namespace=self._namespace if resource.namespaced else None,
            label_selector=labels,
            transform=keep,
            clock=self._clock,
            rng=self._rng,
        )

    def _guarded(self, handle: Callable[[str, Object], None]) -> Callable[[str, Object], None]:
        """Return a handler that skips objects that cannot be recorded."""

        def call(kind: str, obj: Object) -> None:
            try:
                handle(kind, obj)
            except Exception as error:
                self._metrics.unreadable.inc()
                metadata = mapping(obj.get("metadata"))
                where = {"namespace": metadata.get("namespace"), "object": metadata.get("name")}
                _log.warning("an object cannot be recorded", detail=describe(error), **where)

        return call

    def _on_job(self, kind: str, job: Object, since: Millis | None = None) -> None:
        """Record the changes of a job; changes since `since` were not observed."""
        if UNREADABLE in job:
            return
        uid, now, namespace = uid_of(job), self._now(), _namespace(job)
        if kind == DELETED:
            self._subjects.remove(namespace, uid)
            if self._jobs.pop(uid, None) is not None:
                self._put(namespace, job_gone(from_json(unpack(job["packed"])), now))
            return
        job = from_json(unpack(job["packed"]))
        kept = self._jobs.get(uid)
        before = None if kept is None else from_json(unpack(kept))
        records = job_changes(before, job, now)
        if before is None:
            records += first_sight_gap(job, now)
        else:
            if kept is self._known.jobs.get(uid):
                since = self._away_since
            if since is not None:
                records += gap(before, job, since, now)
        self._jobs[uid] = pack(to_json(snapshot_of(job)))
        self._put(namespace, records)
        self._found(namespace, uid, uid)
        for change, pod in self._early_pods.take(namespace, uid):
            self._on_pod(change, pod)

    def _on_pod(self, kind: str, pod: Object) -> None:
        if UNREADABLE in pod:
            return
        uid, now, job = str(pod["metadata"]["uid"]), self._now(), controller_uid(pod)
        if job is None:
            return
        namespace = _namespace(pod)
        if self._subjects.job_of(namespace, job) != job:
            # The watch has not delivered the job yet, or the job is in another namespace.
            self._early_pods.add(namespace, job, (kind, pod), size_of(pod))
            return
        before = self._pods.get(uid)
        if kind == DELETED:
            self._pods.pop(uid, None)
            self._put(namespace, self._kinds.added(placement_gone(pod, now)))
        else:
            self._pods[uid] = pod
            self._put(namespace, self._kinds.added(placement_changes(before, pod, now)))
            if self._logs is not None:
                self._logs.want(logs_wanted(before, pod))
        self._found(namespace, uid, job)
        if kind == DELETED:
            self._subjects.remove(namespace, uid)

    def _on_event(self, event: Object) -> None:
        namespace, uid = subject(event)
        job = self._subjects.job_of(namespace, uid)
        now = self._now()
        entry = event_entry(event, job or "", now)
        size = weight(entry)
        is_within, is_new = self._budgets.take(namespace, uid, size)
        if not is_within:
            self._metrics.events_left_out.inc()
            if not is_new:
                return
            entry = left_out_entry(event, job or "", now)
        if job is not None:
            self._put(namespace, [entry])
        else:
            # The watch has not delivered the subject yet, or it is in another namespace.
            self._early_events.add(namespace, uid, entry, size)

    def _found(self, namespace: str, uid: str, job: str) -> None:
        """Remember a subject, and record the Events that arrived before it."""
        self._subjects.add(namespace, uid, job)
        early = self._early_events.take(namespace, uid)
        self._put(namespace, [replace(each, job=job) for each in early])

    async def _after_absence(self, jobs: WatchCache, pods: WatchCache) -> None:
        """Record the deletion of objects that are no longer in the initial lists."""
        await jobs.synced.wait()
        await pods.synced.wait()
        present = {uid_of(job) for job in jobs.items()}
        for uid in self._known.jobs:
            if uid not in present:
                self._gone(uid, self._known.followed)
        self._end_placements(self._known, pods)
        self._caches = (jobs, pods)
        _log.info("in sight", jobs=len(jobs), pods=len(pods))

    async def _fill_in(self, jobs: WatchCache, pods: WatchCache) -> None:
        """Compare jobs that lost records with their written data, as after a restart."""
        while True:
            await asyncio.sleep(_FILL_IN_SECONDS)
            uids = self._lost(_FILLED_IN_AT_ONCE) if self._caches else []
            if not uids:
                continue
            try:
                known = await asyncio.to_thread(self._recall, uids)
            except SQLAlchemyError as error:
                _log.warning("what was lost cannot be filled in yet", error=describe(error))
                continue
            self._resume(uids)
            self._compare(frozenset(uids), known, jobs, pods)

    def _compare(
        self, uids: Collection[str], known: Known, jobs: WatchCache, pods: WatchCache
    ) -> None:
        """Record the difference between the written data of jobs and pods, and their
        present state.
        """
        for uid in uids:
            self._jobs.pop(uid, None)
        self._jobs.update(known.jobs)
        again = self._guarded(lambda kind, job: self._on_job(kind, job, known.followed))
        present = {uid_of(job): dict(job) for job in jobs.items() if uid_of(job) in uids}
        for job in present.values():
            again("", job)
        for uid in uids:
            if uid not in present:
                self._gone(uid, known.followed)
        again = self._guarded(self._on_pod)
        for pod in [each for each in self._pods.values() if controller_uid(each) in uids]:
            # As a new pod, or its lost records would not be written.
            del self._pods[str(pod["metadata"]["uid"])]
            again("", pod)
        self._end_placements(known, pods)

    def _gone(self, uid: str, not_before: Millis | None) -> None:
        """Record that a job was deleted while its changes were not recorded."""
        if (kept := self._jobs.pop(uid, None)) is not None:
            last = from_json(unpack(kept))
            self._put(_namespace(last), job_gone(last, self._now(), not_before=not_before))
            self._found(_namespace(last), uid, uid)
            self._subjects.remove(_namespace(last), uid)

    def _end_placements(self, known: Known, pods: WatchCache) -> None:
        """Record the end of each known pod that no longer exists."""
        there = {str(pod["metadata"]["uid"]) for pod in pods.items()}
        for row in known.placed:
            if row["pod_uid"] not in there:
                self._put(row["namespace"], [_ended_unseen(row, self._now())])

    async def _events(self, client: KubeClient, kind: str) -> None:
        """Follow the Events on objects of a kind."""
        selector = f"involvedObject.kind={kind}"
        backoff = Backoff(minimum=0.5, maximum=30.0, rng=self._rng)
        handle = self._guarded(lambda _, event: self._on_event(event))
        version = ""
        while True:
            try:
                if not version:
                    found, version = await client.list(
                        EVENTS, self._namespace, field_selector=selector
                    )
                    for event in found:
                        handle("", event)
                async for what, event in client.watch(
                    EVENTS,
                    self._namespace,
                    resource_version=version,
                    field_selector=selector,
                    timeout_seconds=_STREAM_SECONDS,
                ):
                    backoff.reset()
                    version = event["metadata"]["resourceVersion"]
                    if what in ("ADDED", "MODIFIED"):
                        handle("", event)
                await asyncio.sleep(1.0)
            except Gone:
                version = ""
                await asyncio.sleep(1.0)
            except Silent:
                await asyncio.sleep(1.0)
            except ApiError as error:
                pause = backoff.delay(at_least=error.retry_after)
                _log.warning("events cannot be followed", of=kind, error=str(error), pause=pause)
                await asyncio.sleep(pause)


async def _once(ready: Iterable[asyncio.Event], run: Callable[[], Awaitable[None]]) -> None:
    for each in ready:
        await each.wait()
    await run()


def _namespace(obj: Object) -> str:
    return str(mapping(obj.get("metadata")).get("namespace") or "")


def _packed(job: Object) -> Object:
    """Return a job in its cached form, a fifteenth of its parsed size."""
    metadata = job["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion")
    return {
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "packed": pack(to_json(job)),
    }


def _ended_unseen(row: Mapping[str, Any], now: Millis) -> Placement:
    names = Placement.__dataclass_fields__
    return Placement(
        **{
            **{name: row[name] for name in names},
            "kind": row.get("kind") or "",
            "until": now,
            "outcome": "Deleted",
            "reason": "not seen",
            "version": row["version"] + 1,
        }
    )
