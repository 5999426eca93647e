"""Queries of the records; every result is bounded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, func, or_, select

from di_history.changes.pods import LogWanted
from di_history.packing import unpack
from di_history.records import EntryKind, Millis
from di_history.store.tables import entries, jobs, logs, marks, placements, revisions, samples
from di_history.store.writer import FOLLOWED

MOST_JOBS: Final = 500
MOST_ENTRIES: Final = 2_000
MOST_PLACEMENTS: Final = 5_000
MOST_REVISIONS: Final = 500
MOST_SAMPLES: Final = 2_000
MOST_LOGS: Final = 2_000
Object = dict[str, Any]
_OF_SAMPLE: Final = (samples.c.at, samples.c["values"])
_SHOWN: Final = tuple(each for each in jobs.columns if each.name not in ("snapshot", "version"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A filter for jobs; absent values match all.

    Attributes:
        before: (created, uid) of the last job of the previous page.
        is_over: whether it has ended or was deleted.
    """

    namespace: str | None = None
    name: str | None = None
    phase: str | None = None
    is_over: bool | None = None
    since: Millis | None = None
    before: tuple[Millis, str] | None = None
    limit: int = 100


ORDER: Final = (entries.c.at // 1000, entries.c.version, entries.c.at, entries.c.key)
"""Most times are whole seconds; within one the API server's versions tell what came first."""


class Reader:
    """The queries of requests; errors are SQLAlchemy's."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def jobs(self, wanted: Wanted) -> list[Object]:
        """Return the jobs, the newest first."""
        where: list[ColumnElement[bool]] = []
        for column, value in (
            (jobs.c.namespace, wanted.namespace),
            (jobs.c.name, wanted.name),
            (jobs.c.phase, wanted.phase),
        ):
            if value is not None:
                where.append(column == value)
        if wanted.is_over is not None:
            over = or_(jobs.c.deleted.is_not(None), jobs.c.completed.is_not(None))
            where.append(over if wanted.is_over else ~over)
        if wanted.since is not None:
            where.append(jobs.c.seen >= wanted.since)
        if wanted.before is not None:
            created, uid = wanted.before
            where.append(
                or_(jobs.c.created < created, and_(jobs.c.created == created, jobs.c.uid < uid))
            )
        query = (
            select(*_SHOWN)
            .where(*where)
            .order_by(jobs.c.created.desc(), jobs.c.uid.desc())
            .limit(min(wanted.limit, MOST_JOBS))
        )
        return self._all(query)

    def job(self, namespace: str, name: str, uid: str | None = None) -> Object | None:
        """Return the job with that name that was created last, or the one with that UID."""
        query = (
            select(*_SHOWN)
            .where(jobs.c.namespace == namespace, jobs.c.name == name)
            .order_by(jobs.c.created.desc(), jobs.c.uid.desc())
            .limit(1)
        )
        found = self._all(query if uid is None else query.where(jobs.c.uid == uid))
        return found[0] if found else None

    def timeline(self, job: str, *, kinds: Sequence[EntryKind] = ()) -> list[Object]:
        """Return its newest entries in order of time; failures have the pod's last lines."""
        where = [entries.c.job == job]
        if kinds:
            where.append(entries.c.kind.in_(kinds))
        query = (
            select(entries.c.kind, entries.c.at, entries.c.data)
            .where(*where)
            .order_by(*(each.desc() for each in ORDER))
            .limit(MOST_ENTRIES)
        )
        found = [*in_order(self._all(query)[::-1])]
        failed = {each["uid"] for each in found if each["kind"] == EntryKind.FAILURE}
        lines = self._last_lines(job) if failed else {}
        for each in found:
            if each["kind"] == EntryKind.FAILURE and (tail := lines.get(each["uid"])):
                each["lastLines"] = tail
        return found

    def revisions(self, job: str) -> list[Object]:
        """Return the authors and times of its revisions, the oldest first."""
        query = (
            select(revisions.c.number, revisions.c.at, revisions.c.who)
            .where(revisions.c.job == job)
            .order_by(revisions.c.number.desc())
            .limit(MOST_REVISIONS)
        )
        return self._all(query)[::-1]

    def manifest(self, job: str, number: int) -> Object | None:
        """Return the job's manifest at that revision."""
        shared = revisions.alias()
        query = (
            select(func.coalesce(shared.c.manifest, revisions.c.manifest).label("manifest"))
            .outerjoin(
                shared,
                and_(shared.c.job == revisions.c.job, shared.c.number == revisions.c.same_as),
            )
            .where(revisions.c.job == job, revisions.c.number == number)
        )
        found = self._all(query)
        return orjson.loads(unpack(found[0]["manifest"])) if found else None

    def placements(self, job: str) -> list[Object]:
        """Return the placements of its pods, by their beginning."""
        query = (
            select(*_of_placements())
            .where(placements.c.job == job)
            .order_by(placements.c.since.desc(), placements.c.pod)
            .limit(MOST_PLACEMENTS)
        )
        return self._all(query)[::-1]

    def placements_between(
        self, since: Millis, until: Millis, namespace: str | None
    ) -> list[Object]:
        """Return the pods and their nodes at any time from `since` to `until`."""
        columns = (*_of_placements(), placements.c.namespace, placements.c.job, jobs.c.name)
        query = (
            select(*columns)
            .join(jobs, jobs.c.uid == placements.c.job)
            .where(
                placements.c.since < until,
                or_(placements.c.until.is_(None), placements.c.until > since),
                *([placements.c.namespace == namespace] if namespace is not None else []),
            )
            .order_by(placements.c.since.desc(), placements.c.pod_uid)
            .limit(MOST_PLACEMENTS)
        )
        return self._all(query)[::-1]

    def samples(
        self,
        job: str,
        *,
        since: Millis | None = None,
        until: Millis | None = None,
        most: int = MOST_SAMPLES,
    ) -> list[Object]:
        """Return its samples, the oldest first; if there are more than `most`, some of them, evenly
        in time.

        Where that would leave out most of them, as with long times without any, they are thinned
        by their number. Values are JSON, as they are stored.
        """
        where = [samples.c.job == job]
        if since is not None:
            where.append(samples.c.at >= since)
        if until is not None:
            where.append(samples.c.at < until)
        with self._engine.connect() as connection:
            # Counting all of 100,000 takes longer than to choose and read some of them.
            first = select(samples.c.at).where(*where).limit(most + 1).subquery()
            if connection.execute(select(func.count()).select_from(first)).scalar_one() <= most:
                return _samples(connection, select(*_OF_SAMPLE).where(*where))
            # Both in one SELECT would read all of them.
            begin, end = connection.execute(
                select(
                    select(func.min(samples.c.at)).where(*where).scalar_subquery(),
                    select(func.max(samples.c.at)).where(*where).scalar_subquery(),
                )
            ).one()
            spacing = (end - begin) // most + 1
            found = _samples(connection, _chosen(job, where, since, apart=spacing))
            if len(found) < most // 2:
                count = connection.execute(select(func.count()).where(*where)).scalar_one()
                every = -(-count // most)
                found = _samples(connection, _chosen(job, where, since, every=every))
            return found

    def logs(self, job: str) -> list[Object]:
        """Return which log tails are kept, and which are known to be lost."""
        shown = [each for each in logs.columns if each.name not in ("job", "body", "tail")]
        query = select(*shown).where(logs.c.job == job).order_by(logs.c.at.desc()).limit(MOST_LOGS)
        return self._all(query)[::-1]

    def log(self, job: str, pod: str, container: str | None = None) -> Object | None:
        """Return the last kept log of a pod with that name, with its `text`."""
        shown = [each for each in logs.columns if each.name != "job"]
        found = self._last_log(job, pod, container, shown, of=logs.c.body)
        if found is None:
            return None
        body = found.pop("body")
        return {**found, "text": None if body is None else unpack(body)}

    def whole_log(self, job: str, pod: str, container: str | None = None) -> Object | None:
        """Return the location of the last whole log of a pod with that name, or why there is none.

        Of several the last one that has an object.
        """
        shown = (logs.c.whole_key, logs.c.whole_note, logs.c.whole_cut, logs.c.whole_size)
        return self._last_log(job, pod, container, shown, of=logs.c.whole_key)

    def _last_log(
        self,
        job: str,
        pod: str,
        container: str | None,
        shown: Sequence[ColumnElement[Any]],
        *,
        of: ColumnElement[Any],
    ) -> Object | None:
        """Return columns of the last log of a pod with that name; one that has `of` goes first."""
        query = (
            select(*shown)
            .where(logs.c.job == job, logs.c.pod == pod)
            .order_by(of.is_(None), logs.c.at.desc(), logs.c.attempt.desc())
            .limit(1)
        )
        if container is not None:
            query = query.where(logs.c.container == container)
        found = self._all(query)
        return found[0] if found else None

    def followed(self) -> Millis | None:
        """Return the time until which everything is known to be written."""
        found = self._all(select(marks.c.at).where(marks.c.name == FOLLOWED))
        return found[0]["at"] if found else None

    def snapshots(self, uids: Collection[str] | None = None) -> dict[str, bytes]:
        """Return the packed snapshots of jobs that are not known to be deleted, by UID.

        Args:
            uids: of the jobs, at most a thousand; None: all.
        """
        query = select(jobs.c.uid, jobs.c.snapshot).where(jobs.c.deleted.is_(None))
        if uids is not None:
            query = query.where(jobs.c.uid.in_(uids))
        return {each["uid"]: bytes(each["snapshot"]) for each in self._all(query)}

    def has_log(self, wanted: LogWanted, *, whole: bool) -> bool:
        """Return whether the log tail, or the whole log, is already kept or known to be lost."""
        query = select(logs.c.at).where(
            logs.c.job == wanted.job,
            logs.c.pod_uid == wanted.pod_uid,
            logs.c.container == wanted.container,
            logs.c.attempt == wanted.attempt,
            logs.c.final.is_(True),
        )
        if whole:
            query = query.where(or_(logs.c.whole_key.is_not(None), logs.c.whole_note.is_not(None)))
        return bool(self._all(query))

    def placed(self, uids: Collection[str] | None = None) -> list[Object]:
        """Return the placements without a known end; of these jobs, or None: of all."""
        query = select(placements).where(placements.c.until.is_(None))
        return self._all(query if uids is None else query.where(placements.c.job.in_(uids)))

    def _last_lines(self, job: str) -> dict[str, str]:
        query = (
            select(logs.c.pod_uid, logs.c.tail)
            .where(logs.c.job == job, logs.c.failed.is_(True), logs.c.tail != "")
            .order_by(logs.c.at)
        )
        return {each["pod_uid"]: each["tail"] for each in self._all(query)}

    def _all(self, query: Any) -> list[Object]:
        with self._engine.connect() as connection:
            result = connection.execute(query)
            # SQLAlchemy's keys are of a str subclass, which no serializer accepts.
            keys = [str(key) for key in result.keys()]  # noqa: SIM118  # a method of the result
            return [dict(zip(keys, row, strict=True)) for row in result]


def _samples(connection: Connection, query: Select[tuple[Millis, str]]) -> list[Object]:
    rows = sorted(map(tuple, connection.execute(query).all()), key=itemgetter(0))
    return [{"at": at, "values": orjson.Fragment(values)} for at, values in rows]


def _chosen(
    job: str,
    where: Sequence[ColumnElement[bool]],
    since: Millis | None,
    *,
    apart: Millis = 1,
    every: int = 1,
) -> Select[tuple[Millis, str]]:
    """Return a query for the newest sample and for earlier ones.

    Each step goes through the keys of the samples that it leaves out. In SQLite that takes a third
    of the time that numbering all of 100,000 with a window takes; without `every` it finds the next
    one at once.

    Args:
        apart: milliseconds between two samples at least.
        every: takes every so many-th of these.
    """
    chosen = select(func.max(samples.c.at).label("at")).where(*where).cte("chosen", recursive=True)
    earlier = samples.alias("earlier")
    bounds = [earlier.c.job == job, earlier.c.at <= chosen.c.at - apart]
    if since is not None:
        bounds.append(earlier.c.at >= since)
    step = select(earlier.c.at).where(*bounds).order_by(earlier.c.at.desc())
    following = step.limit(1).offset(every - 1).scalar_subquery()
    chosen = chosen.union_all(select(following).where(chosen.c.at.is_not(None)))
    of_chosen = and_(samples.c.job == job, samples.c.at == chosen.c.at)
    return select(*_OF_SAMPLE).select_from(chosen).join(samples, of_chosen)


def _of_placements() -> list[Any]:
    names = ("pod", "pod_uid", "task", "rank", "node", "gpus", "since", "until")
    return [placements.c[name] for name in (*names, "outcome", "reason", "exit_code")]


def in_order(rows: Iterable[Mapping[str, Any]]) -> Iterator[Object]:
    """Yield the entries of rows, in order of `at` too. A phase that was stored twice, because two
    processes saw the job at different versions, is one entry.
    """
    last, phase = 0, None
    for row in rows:
        last = max(last, int(row["at"]))
        entry = {"kind": row["kind"], "at": last, **orjson.loads(row["data"])}
        if row["kind"] == EntryKind.PHASE:
            if entry.get("phase") == phase:
                continue
            phase = entry.get("phase")
        yield entry
