"""The patch of a job's status for several requests for data shards, and the answer to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import orjson

from di_api.field_error import mapping
from di_api.status.shards import FIELD, LEASES_FIELD, MAX_SETS
from di_server.jobs.profilings import difference
from di_server.jobs.shards.asked import Restore, Take
from di_server.jobs.shards.ranges import to_text
from di_server.jobs.shards.stored import (
    UID_KEPT,
    fields_beside_leases,
    plan_fields,
    read_table,
    stored_lease,
    to_status,
)
from di_server.jobs.shards.table import Lease, Plan, Shard, Table
from di_server.model.job import check_active
from di_server.problems import Busy, NotNow, OutOfBounds, Problem

Object: TypeAlias = Mapping[str, Any]

MAX_BYTES: Final = 192 * 1024
"""Bytes of `status.shards` as compact JSON from which on workers get no more shards. Every watcher
of the job gets them.
"""
LEASE_BYTES: Final = 36
"""Bytes of a lease in the status, beside the worker's name and its shards."""
SLOW_SHOWN: Final = 10
"""Maximum number of slow workers in an answer."""
REQUESTS_A_SECOND: Final = 100
"""Requests of all workers of a data set that are aimed at: with many workers each asks for more
shards at once.
"""
LEAST_AHEAD: Final = 1.0
"""Seconds of work that a worker should ask for at once, if there are few."""
RETRY_SECONDS: Final = 1
"""Seconds after which a worker without a shard should ask again."""
NEW_SECONDS: Final = 10
"""Age of a lease in seconds from which on a pod that the watch lacks is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of one job's worker."""

    asked: Take | Restore
    pod: str
    """UID of the pod that sent it; empty: unknown."""
    check: Callable[[Mapping[str, Any]], None]
    """Raises a Problem if the request is not about the given job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A job as it is stored."""

    job: Object
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Tables of its status that were parsed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of several requests."""

    patch: dict[str, Any] | None
    """RFC 7396 patch, which sets the version that was read; None if nothing changes."""
    outcomes: Sequence[Problem | dict[str, Any]]
    tables: Mapping[str, Table]
    """All tables that are known after the write."""

    def after(self, stored: Object) -> State:
        """Return the state once the patch is written."""
        return State(job=stored, tables=self.tables)


def status_patch(
    state: State,
    requests: Sequence[Request],
    now: datetime,
    live: AbstractSet[str] | None,
) -> Written:
    """Serve requests one after the other, as if each were written alone.

    Args:
        live: beginnings of the UIDs of the job's pods that have not ended; None: unknown.
    """
    job = state.job
    held = mapping(mapping(job.get("status")).get(FIELD))
    board = _Board(held, state.tables, now, live)
    outcomes: list[Problem | dict[str, Any]] = []
    for request in requests:
        try:
            request.check(job)
            check_active(job)
            outcomes.append(board.serve(request))
        except Problem as problem:
            outcomes.append(problem)
    changed = board.changed()
    if not changed:
        return Written(patch=None, outcomes=outcomes, tables=state.tables)
    metadata = {"resourceVersion": job["metadata"]["resourceVersion"]}
    patch = {"metadata": metadata, "status": {FIELD: changed}}
    return Written(patch=patch, outcomes=outcomes, tables=board.tables())


def check_stored(job: Object) -> None:
    """Refuse to answer from a status that was not stored.

    Raises:
        NotNow: the CRD is of an earlier version, so the API server has dropped it.
    """
    if FIELD not in mapping(job.get("status")):
        raise NotNow("the DIJob CRD lacks status.shards: upgrade the CRDs to this version")


def described(job: Object, name: str, now: datetime) -> dict[str, Any]:
    """Return the position of a data set, and who has its shards.

    Raises:
        OutOfBounds: the job has no such data set.
        NotNow: it cannot be read.
    """
    known = mapping(mapping(job.get("status")).get(FIELD))
    if name not in known:
        raise OutOfBounds(f"no worker of this job has asked for shards of {name}")
    table = _read(name, known[name])
    return {
        **plan_fields(table.plan),
        "generation": table.generation,
        "after": table.after,
        "undone": to_text(table.undone),
        "done": table.done,
        "total": table.plan.total,
        "epoch": table.epoch,
        "workers": {worker: len(lease.shards) for worker, lease in table.leases.items()},
        "slowWorkers": list(table.slow_workers(now, SLOW_SHOWN)),
    }


class _Board:
    """The tables of a job while a batch of requests is served: each is read and written once."""

    def __init__(
        self,
        held: Mapping[str, Any],
        known: Mapping[str, Table],
        now: datetime,
        live: AbstractSet[str] | None,
    ) -> None:
        self._held = held
        self._known = known
        self._now = now
        self._live = live
        self._before: dict[str, Table] = {}
        """Tables as they are stored, of those that were read."""
        self._tables: dict[str, Table] = {}
        self._bytes = len(orjson.dumps(held)) if held else 0

    def changed(self) -> dict[str, Any]:
        """Return the RFC 7396 patch of `status.shards`."""
        return {
            name: patch
            for name, table in self._tables.items()
            if (patch := self._patch(name, table))
        }

    def _patch(self, name: str, table: Table) -> dict[str, Any]:
        """Return the patch of a table. Leases that are the same object have not changed: a table
        of a thousand workers is written for each few of their requests.
        """
        before, held = self._before.get(name), mapping(self._held.get(name))
        if before is None:
            return difference(self._held.get(name), to_status(table))
        beside = {key: value for key, value in held.items() if key != LEASES_FIELD}
        patch = difference(beside, fields_beside_leases(table))
        leases: dict[str, Any] = {
            worker: stored_lease(lease)
            for worker, lease in table.leases.items()
            if before.leases.get(worker) is not lease
        }
        leases.update((worker, None) for worker in before.leases if worker not in table.leases)
        return {**patch, LEASES_FIELD: leases} if leases else patch

    def tables(self) -> dict[str, Table]:
        """Return all tables that are known, as they are after the requests."""
        return {**self._known, **self._before, **self._tables}

    def serve(self, request: Request) -> dict[str, Any]:
        """Return the data of the response to a request. Raises a Problem."""
        asked = request.asked
        names = self._held.keys() | self._tables.keys()
        if asked.name not in names and len(names) >= MAX_SETS:
            raise OutOfBounds(f"a job has at most {MAX_SETS} data sets with shards")
        if isinstance(asked, Restore):
            table = self._restored(asked)
            self._tables[asked.name] = table
            return {"generation": table.generation}
        table = self._table(asked.name) or Table(plan=asked.plan)
        if table.plan != asked.plan:
            raise NotNow(_difference(asked.name, table.plan, asked.plan))
        return self._take(asked, table, request.pod[:UID_KEPT])

    def _take(self, asked: Take, before: Table, pod: str) -> dict[str, Any]:
        worker = asked.ask.worker
        table, given = before.serve(replace(asked.ask, pod=pod), self._now)
        grown = _bytes_of(worker, table) - _bytes_of(worker, before)
        if grown > 0 and self._bytes + grown > MAX_BYTES:
            raise Busy(
                f"the shards that workers of this job have take {MAX_BYTES} bytes, try again",
                retry_after=RETRY_SECONDS,
            )
        self._bytes += grown
        self._tables[asked.name] = table
        lease = table.leases.get(worker)
        has = lease.shards if lease is not None else frozenset[int]()
        return {
            "generation": table.generation,
            "shards": [_shard_fields(table.shard(index)) for index in given],
            "lost": sorted(asked.ask.holds - has),
            "done": table.done,
            "total": table.plan.total,
            "finished": table.is_finished,
            "retryAfter": RETRY_SECONDS,
            "ahead": max(LEAST_AHEAD, round(len(table.leases) / REQUESTS_A_SECOND, 1)),
        }

    def _table(self, name: str) -> Table | None:
        """Return a table without the leases that are over."""
        if name in self._tables:
            return self._tables[name]
        if name not in self._held:
            return None
        found = self._known.get(name) or _read(name, self._held[name])
        self._before[name] = found
        return found.reclaim(self._now, lambda lease: _is_gone(lease, found, self._now, self._live))

    def _restored(self, asked: Restore) -> Table:
        try:
            before = self._table(asked.name)
        except NotNow:
            # A position is what repairs a table that was edited by hand.
            before = None
        generation = 0 if before is None else before.generation
        return Table(plan=asked.plan, generation=generation).restored(asked.after, asked.undone)


def _shard_fields(shard: Shard) -> dict[str, int]:
    # dataclasses.asdict takes longer than the whole rest of an answer.
    return {
        "index": shard.index,
        "epoch": shard.epoch,
        "start": shard.start,
        "end": shard.end,
    }


def _bytes_of(worker: str, table: Table) -> int:
    """Return about how many bytes of the status the shards of a worker take."""
    lease = table.leases.get(worker)
    return 0 if lease is None else LEASE_BYTES + len(worker) + len(to_text(lease.shards))


def _difference(name: str, known: Plan, asked: Plan) -> str:
    wanted = plan_fields(asked)
    key, value = next((k, v) for k, v in plan_fields(known).items() if v != wanted[k])
    return (
        f"{name} has {key} {value} for the workers of this job, not {wanted[key]}: another data "
        "set needs another name, or PUT a position to begin again"
    )


def _read(name: str, found: object) -> Table:
    try:
        return read_table(found)
    except ValueError as error:
        raise NotNow(f"status.shards.{name} cannot be read: {error}; PUT a position") from error


def _is_gone(lease: Lease, table: Table, now: datetime, live: AbstractSet[str] | None) -> bool:
    """Return whether the pod of a lease has ended. The watch may lack a new pod for a moment."""
    if live is None or not lease.pod or lease.pod in live:
        return False
    since = lease.until - timedelta(seconds=table.plan.lease_seconds)
    return now - since >= timedelta(seconds=NEW_SECONDS)
