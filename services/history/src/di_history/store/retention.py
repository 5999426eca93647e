"""Deletion of old records, and of those beyond the maximum size."""

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
"""Jobs reduced in one transaction."""
_HOUR: Final = 3_600_000
_THINNED: Final = ((_HOUR, 60_000), (24 * _HOUR, 600_000), (7 * 24 * _HOUR, _HOUR))
"""Thinning of samples: those older than the first number keep one per period of the second, in
milliseconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Limits on age and size. An existing job loses its oldest records, and never all of them.

    Attributes:
        age: milliseconds after a job's end.
        size: maximum bytes of all records. Each namespace has its max-min fair share of them.
        job: maximum bytes of one job, without its logs.
    """

    age: Millis
    size: int
    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Result of a sweep.

    Attributes:
        aged: jobs deleted for their age.
        crowded: jobs deleted because their namespace exceeded its share.
        size: remaining bytes.
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
    """Thin series, reduce and weigh the jobs with new records, and delete expired jobs.

    Each step is a transaction; the next sweep finishes an interrupted one, and two replicas have
    the same effect as one.

    Args:
        written: UIDs of the jobs that may have changed since the last sweep; None: all.
        forget_elsewhere: deletes a job's data in other places, by namespace and UID; if it raises,
            the job keeps its rows and the sweep ends with the error.
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
    """Delete the namespace's jobs that ended first; return their number, and the bytes that are
    still too many.
    """
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
    """Delete old records of the namespace's existing jobs, the largest jobs first."""
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
    """Return the bytes of the records, by namespace."""
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
    """Begin a transaction in which read data of jobs cannot change."""
    with engine.begin() as connection:
        # SQLite's transaction begins with the first change: the writer could run between a read and
        # that.
        connection.execute(update(jobs).where(jobs.c.uid.is_(None)).values(bytes=0))
        lock_jobs(connection, uids)
        yield connection


def _forget(
    engine: Engine, chosen: Sequence[tuple[str, str]], elsewhere: Callable[[str, str], None]
) -> None:
    # Before the rows, which contain the locations; and not in a transaction, which writers would
    # wait for.
    for namespace, uid in chosen:
        elsewhere(namespace, uid)
    uids = [uid for _, uid in chosen]
    with engine.begin() as connection:
        lock_jobs(connection, uids)
        forget(connection, uids, OF_JOBS)


def _is_over() -> ColumnElement[bool]:
    return or_(jobs.c.deleted.is_not(None), jobs.c.completed.is_not(None))
