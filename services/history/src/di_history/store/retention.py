"""What is given up with age, and when there is too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Engine, delete, func, or_, select, update

from di_history.records import Millis
from di_history.store.tables import OF_JOBS, jobs, samples
from di_history.store.writer import forget, stored_bytes

_AT_ONCE: Final = 200
"""Jobs deleted in one transaction, which writers wait for."""
_HOUR: Final = 3_600_000
_THINNED: Final = ((_HOUR, 60_000), (24 * _HOUR, 600_000), (7 * 24 * _HOUR, _HOUR))
"""Samples older than the first have one in each of the second, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long, and how much. A job that is there is never given up.

    Attributes:
        age: milliseconds after a job's end.
        size: bytes of all that is kept.
    """

    age: Millis
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did.

    Attributes:
        aged: jobs given up for their age.
        crowded: jobs given up for room.
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
    since: Millis,
    forget_elsewhere: Callable[[str, str], None],
) -> Swept:
    """Thin series, weigh the jobs seen since `since`, and give up those that are over.

    Each step is a transaction; a sweep that was cut short is finished by the next one, and two
    replicas do no more than one.

    Args:
        forget_elsewhere: gives up what is kept of a job, by namespace and UID, in other places; a
            job of which it raises keeps its rows, and the sweep ends with that.
    """
    _thin(engine, now)
    with engine.begin() as connection:
        connection.execute(
            update(jobs).where(jobs.c.seen >= since).values(bytes=stored_bytes(jobs.c.uid))
        )
    aged = _forget_aged(engine, now - retention.age, forget_elsewhere)
    crowded = _forget_crowded(engine, retention.size, forget_elsewhere)
    with engine.connect() as connection:
        size = connection.execute(select(func.coalesce(func.sum(jobs.c.bytes), 0))).scalar_one()
    return Swept(aged=aged, crowded=crowded, size=int(size))


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


def _forget_crowded(engine: Engine, most: int, elsewhere: Callable[[str, str], None]) -> int:
    count = 0
    while True:
        with engine.connect() as connection:
            size = connection.execute(select(func.coalesce(func.sum(jobs.c.bytes), 0))).scalar_one()
            over = int(size) - most
            if over <= 0:
                return count
            oldest = connection.execute(
                select(jobs.c.namespace, jobs.c.uid, jobs.c.bytes)
                .where(_is_over())
                .order_by(_ended)
                .limit(_AT_ONCE)
            ).all()
        chosen: list[tuple[str, str]] = []
        for namespace, uid, weight in oldest:
            if over <= 0:
                break
            chosen.append((namespace, uid))
            over -= weight
        if not chosen:
            return count
        _forget(engine, chosen, elsewhere)
        count += len(chosen)


def _forget(
    engine: Engine, chosen: Sequence[tuple[str, str]], elsewhere: Callable[[str, str], None]
) -> None:
    # Before the rows, which lead there; and in no transaction, which writers would wait for.
    for namespace, uid in chosen:
        elsewhere(namespace, uid)
    with engine.begin() as connection:
        forget(connection, [uid for _, uid in chosen], OF_JOBS)


def _is_over() -> ColumnElement[bool]:
    return or_(jobs.c.deleted.is_not(None), jobs.c.completed.is_not(None))
