"""What is given up with age, and when there is too much."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, or_, select, update

from di_history.fair_share import over_the_level
from di_history.records import Millis
from di_history.store.shares import (
    bound_job,
    bound_log_bodies,
    lock_jobs,
    stored_bytes,
)
from di_history.store.tables import OF_JOBS, jobs, samples
from di_history.store.writer import forget

_AT_ONCE: Final = 200
"""Jobs deleted in one transaction, which writers wait for."""
_BOUND_AT_ONCE: Final = 20
"""Jobs bounded in one transaction."""
_HOUR: Final = 3_600_000
_THINNED: Final = ((_HOUR, 60_000), (24 * _HOUR, 600_000), (7 * 24 * _HOUR, _HOUR))
"""Samples older than the first have one in each of the second, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long, and how much. A job that exists loses its oldest records, and never all of them.

    Attributes:
        age: milliseconds after a job's end.
        size: bytes of all that is kept. Each namespace has its max-min fair share of them.
        job: bytes of one job, without the bodies of its logs.
    """

    age: Millis
    size: int
    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did.

    Attributes:
        aged: jobs given up for their age.
        crowded: jobs given up because their namespace exceeded its share.
        size: bytes that are kept.
    """

    aged: int
    crowded: int
    size: int


def sweep(
    engine: Engine,
    retention: Retention,
    *,
    now: Millis,
    written: Collection[str] | None,
    forget_elsewhere: Callable[[str, str], None],
) -> Swept:
    """Thin series, bound and weigh the jobs that were written to, and give up those that are over.

    Each step is a transaction; a sweep that was cut short is finished by the next one, and two
    replicas do no more than one.

    Args:
        written: UIDs of the jobs that may have changed since the last sweep; None: all.
        forget_elsewhere: gives up what is kept of a job, by namespace and UID, in other places; a
            job of which it raises keeps its rows, and the sweep ends with that.
    """
    _thin(engine, now)
    for uids in _parts(_all(engine) if written is None else sorted(written)):
        with _writing(engine, uids) as connection:
            for uid in uids:
                bound_job(connection, uid, retention.job)
            _weigh(connection, uids)
    aged = _forget_aged(engine, now - retention.age, forget_elsewhere)
    crowded = 0
    for namespace, over in over_the_level(_sizes(engine), retention.size).items():
        count, left = _forget_crowded(engine, namespace, over, forget_elsewhere)
        crowded += count
        if left > 0:
            _shrink(engine, namespace, left)
    return Swept(aged=aged, crowded=crowded, size=sum(_sizes(engine).values()))


_ended = func.coalesce(jobs.c.deleted, jobs.c.completed)


def _thin(engine: Engine, now: Millis) -> None:
    for age, spacing in _THINNED:
        with engine.begin() as connection:
            kept = (
                select(samples.c.job, func.max(samples.c.at).label("at"))
                .where(samples.c.at < now - age)
                .group_by(samples.c.job, samples.c.at // spacing)
                .subquery()
            )
            connection.execute(
                delete(samples).where(
                    samples.c.at < now - age,
                    ~select(kept.c.at)
                    .where(kept.c.job == samples.c.job, kept.c.at == samples.c.at)
                    .exists(),
                )
            )


def _forget_aged(engine: Engine, before: Millis, elsewhere: Callable[[str, str], None]) -> int:
    count = 0
    while True:
        with engine.connect() as connection:
            found = connection.execute(
                select(jobs.c.namespace, jobs.c.uid)
                .where(_is_over(), _ended < before)
                .limit(_AT_ONCE)
            ).all()
        if not found:
            return count
        _forget(engine, [(namespace, uid) for namespace, uid in found], elsewhere)
        count += len(found)


def _forget_crowded(
    engine: Engine, namespace: str, over: int, elsewhere: Callable[[str, str], None]
) -> tuple[int, int]:
    """Give up the namespace's jobs that ended first; returns how many, and the bytes still over."""
    count = 0
    while over > 0:
        with engine.connect() as connection:
            oldest = connection.execute(
                select(jobs.c.uid, jobs.c.bytes)
                .where(_is_over(), jobs.c.namespace == namespace)
                .order_by(_ended)
                .limit(_AT_ONCE)
            ).all()
        chosen: list[tuple[str, str]] = []
        for uid, weight in oldest:
            if over <= 0:
                break
            chosen.append((namespace, uid))
            over -= weight
        if not chosen:
            break
        _forget(engine, chosen, elsewhere)
        count += len(chosen)
    return count, over


def _shrink(engine: Engine, namespace: str, over: int) -> None:
    """Give up old records of the namespace's jobs that exist, from the largest ones."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(jobs.c.uid, jobs.c.bytes).where(jobs.c.namespace == namespace)
        ).all()
    sizes: dict[str, int] = {row.uid: row.bytes for row in rows}
    for uid, excess in over_the_level(sizes, max(0, sum(sizes.values()) - over)).items():
        with _writing(engine, [uid]) as connection:
            half = (sizes[uid] - excess) // 2
            bound_job(connection, uid, half)
            bound_log_bodies(connection, uid, half)
            _weigh(connection, [uid])


def _sizes(engine: Engine) -> dict[str, int]:
    """Bytes of what is kept, by namespace."""
    with engine.connect() as connection:
        rows = connection.execute(
            select(jobs.c.namespace, func.sum(jobs.c.bytes)).group_by(jobs.c.namespace)
        ).all()
    return {namespace: int(size) for namespace, size in rows}


def _weigh(connection: Connection, uids: Sequence[str]) -> None:
    connection.execute(update(jobs).where(jobs.c.uid.in_(uids)).values(bytes=stored_bytes()))


def _all(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(select(jobs.c.uid).order_by(jobs.c.uid)).scalars())


def _parts(uids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(uids), _BOUND_AT_ONCE):
        yield uids[first : first + _BOUND_AT_ONCE]


@contextmanager
def _writing(engine: Engine, uids: Sequence[str]) -> Iterator[Connection]:
    """A transaction in which what is read of jobs stays until it is changed."""
    with engine.begin() as connection:
        # SQLite's begins with the first change: the writer could come between a read and that.
        connection.execute(update(jobs).where(jobs.c.uid.is_(None)).values(bytes=0))
        lock_jobs(connection, uids)
        yield connection


def _forget(
    engine: Engine, chosen: Sequence[tuple[str, str]], elsewhere: Callable[[str, str], None]
) -> None:
    # Before the rows, which lead there; and in no transaction, which writers would wait for.
    for namespace, uid in chosen:
        elsewhere(namespace, uid)
    uids = [uid for _, uid in chosen]
    with engine.begin() as connection:
        lock_jobs(connection, uids)
        forget(connection, uids, OF_JOBS)


def _is_over() -> ColumnElement[bool]:
    return or_(jobs.c.deleted.is_not(None), jobs.c.completed.is_not(None))
