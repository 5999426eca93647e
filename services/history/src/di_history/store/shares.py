"""Shares of a job's space by kind of record, and the job's size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Table, case, delete, func, select, update

from di_history.store.byte_length import ByteLength
from di_history.store.revisions import ROW_BYTES, bound_revisions
from di_history.store.tables import entries, jobs, logs, placements, revisions, samples

KINDS: Final = 5
"""Revisions, entries, placements, samples, and rows of logs: each has an equal share of a job."""
_JOB_ROW: Final = 600
_ENTRY: Final = ByteLength(entries.c.data) + 150
_PLACEMENT: Final = 350
_SAMPLE: Final = ByteLength(samples.c["values"]) + 80
_LOG: Final = ByteLength(logs.c.tail) + 250
_FAILED_FIRST: Final = case((logs.c.failed, 1), else_=0).desc()
_GIVEN_UP: Final = "given up: the job's logs are many"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A kind of record of which the oldest are deleted first.

    Attributes:
        weight: bytes of a row, a number or an expression.
    """

    table: Table
    weight: Any
    newest_first: tuple[Any, ...]


_BY_AGE: Final = (
    _Kind(table=entries, weight=_ENTRY, newest_first=(entries.c.at.desc(), entries.c.key)),
    _Kind(
        table=placements,
        weight=_PLACEMENT,
        newest_first=(placements.c.since.desc(), placements.c.pod_uid),
    ),
    _Kind(table=samples, weight=_SAMPLE, newest_first=(samples.c.at.desc(),)),
    _Kind(table=logs, weight=_LOG, newest_first=(_FAILED_FIRST, logs.c.at.desc(), logs.c.pod_uid)),
)


def lock_jobs(connection: Connection, uids: Iterable[str]) -> None:
    """Lock the records of these jobs until the transaction ends.

    Call it before any other change of the transaction, because two transactions that each lock a
    part could deadlock. SQLite has one writer at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(
            select(jobs.c.uid)
            .where(jobs.c.uid.in_(sorted(uids)))
            .order_by(jobs.c.uid)
            .with_for_update()
        ).all()


def bound_job(connection: Connection, job: str, most: int) -> None:
    """Delete the oldest records of each kind beyond its share of `most` bytes.

    The newest revision stays whatever its size.
    """
    part = most // KINDS
    bound_revisions(connection, job, part)
    for kind in _BY_AGE:
        _give_up_oldest(connection, kind, job, part)


def bound_log_bodies(connection: Connection, job: str, most: int) -> None:
    """Delete the bodies of a job's logs beyond `most` bytes, those of failed pods last.

    Their last lines stay.
    """
    kept = connection.execute(
        select(logs.c.pod_uid, logs.c.container, logs.c.attempt, logs.c.stored)
        .where(logs.c.job == job, logs.c.body.is_not(None))
        .order_by(_FAILED_FIRST, logs.c.at.desc(), logs.c.pod_uid)
    ).all()
    total = 0
    for pod_uid, container, attempt, stored in kept:
        total += stored
        if total > most:
            total -= stored
            connection.execute(
                update(logs)
                .where(
                    logs.c.job == job,
                    logs.c.pod_uid == pod_uid,
                    logs.c.container == container,
                    logs.c.attempt == attempt,
                )
                .values(body=None, stored=0, final=True, note=_GIVEN_UP)
            )


def stored_bytes() -> Any:
    """Return an expression for the bytes of a job's records, in its row of `jobs`."""

    def total(table: Any, amount: Any) -> Any:
        return (
            select(func.coalesce(func.sum(amount), 0))
            .where(table.c.job == jobs.c.uid)
            .scalar_subquery()
        )

    return (
        ByteLength(jobs.c.snapshot)
        + _JOB_ROW
        + total(revisions, ByteLength(revisions.c.manifest) + ROW_BYTES)
        + total(entries, _ENTRY)
        + total(placements, _PLACEMENT)
        + total(samples, _SAMPLE)
        + total(logs, logs.c.stored + _LOG)
    )


def _give_up_oldest(connection: Connection, kind: _Kind, job: str, most: int) -> None:
    key = [each for each in kind.table.primary_key if each.name != "job"]
    total = func.sum(kind.weight).over(order_by=kind.newest_first).label("total")
    summed = select(*key, total).where(kind.table.c.job == job).subquery()
    over = connection.execute(
        select(*(summed.c[each.name] for each in key)).where(summed.c.total > most)
    ).all()
    for row in over:
        same = [column == value for column, value in zip(key, row, strict=True)]
        connection.execute(delete(kind.table).where(kind.table.c.job == job, *same))
