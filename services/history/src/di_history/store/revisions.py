"""Storage of a job's revisions: which ones are kept, with each manifest stored once.

A manifest is compressed JSON of up to 1.5 MB, and every change of the spec creates a revision. So
equal manifests of a job are stored once: in the newest revision that has it, to which the others
refer. Old revisions are deleted first, so the referenced one stays the longest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, select, update

from di_history.packing import pack, unpack
from di_history.records import Millis
from di_history.store.byte_length import ByteLength
from di_history.store.tables import revisions

ROW_BYTES: Final = 100
"""Approximate bytes of a revision besides its manifest."""
UNMERGED: Final = 20
"""Number of newest revisions that are always kept."""
MERGED: Final = 60_000
"""Milliseconds; of older revisions the last one in each such period is kept."""
NOWHERE: Final = pack(b"null")
"""Placeholder for a manifest in another row. A version without `same_as` reads it as absent."""
_OTHER: Final = revisions.alias()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A revision, without its manifest.

    Attributes:
        content: hash of its manifest.
        size: bytes of the manifest, compressed, also if another row has it.
        holder: number of the revision whose row has the manifest.
    """

    number: int
    at: Millis
    content: str
    size: int
    holder: int


def content_of(manifest: bytes) -> str:
    """Return the hash by which equal manifests are found."""
    return hashlib.sha256(manifest).hexdigest()


def revisions_to_keep(found: Sequence[Stored], most: int) -> list[Stored]:
    """Return the revisions that are kept, the newest first.

    All but the newest UNMERGED are reduced to one per period of MERGED. Then the oldest are deleted
    until the rest has at most `most` bytes; the newest always stays.

    Args:
        found: the newest first.
    """
    kept: list[Stored] = []
    contents: set[str] = set()
    total = 0
    for place, each in enumerate(found):
        if place >= UNMERGED and each.at // MERGED == kept[-1].at // MERGED:
            continue
        total += ROW_BYTES + (0 if each.content in contents else each.size)
        if kept and total > most:
            break
        kept.append(each)
        contents.add(each.content)
    return kept


def bound_revisions(connection: Connection, job: str, most: int) -> None:
    """Store equal manifests of a job once, and delete the revisions that are not kept.

    Args:
        most: maximum bytes of the job's revisions, as stored.
    """
    found = _stored(connection, job)
    kept = revisions_to_keep(found, most)
    newest: dict[str, int] = {}
    for each in kept:
        newest.setdefault(each.content, each.number)
    for each in kept:
        holder = newest[each.content]
        if each.number == holder and each.holder != holder:
            # The row that had it may be deleted.
            body = (
                select(_OTHER.c.manifest)
                .where(_OTHER.c.job == job, _OTHER.c.number == each.holder)
                .scalar_subquery()
            )
            connection.execute(
                update(revisions).where(_is(job, holder)).values(manifest=body, same_as=None)
            )
    for each in kept:
        holder = newest[each.content]
        if holder not in (each.number, each.holder):
            connection.execute(
                update(revisions)
                .where(_is(job, each.number))
                .values(manifest=NOWHERE, same_as=holder)
            )
    gone = {each.number for each in found} - {each.number for each in kept}
    for number in sorted(gone):
        connection.execute(delete(revisions).where(_is(job, number)))


def _is(job: str, number: int) -> ColumnElement[bool]:
    return (revisions.c.job == job) & (revisions.c.number == number)


def _stored(connection: Connection, job: str) -> list[Stored]:
    rows = connection.execute(
        select(
            revisions.c.number,
            revisions.c.at,
            revisions.c.content,
            revisions.c.same_as,
            ByteLength(revisions.c.manifest).label("size"),
        )
        .where(revisions.c.job == job)
        .order_by(revisions.c.number.desc())
        # If another replica reduces the same job, it waits, or it would move what has already
        # moved.
        .with_for_update()
    ).all()
    sizes = {row.number: row.size for row in rows}
    return [
        Stored(
            number=row.number,
            at=row.at,
            content=row.content or _hashed(connection, job, row.number),
            size=sizes.get(row.same_as, row.size) if row.same_as is not None else row.size,
            holder=row.same_as if row.same_as is not None else row.number,
        )
        for row in rows
    ]


def _hashed(connection: Connection, job: str, number: int) -> str:
    """Add the hash to a revision that an earlier version has written."""
    body = connection.execute(select(revisions.c.manifest).where(_is(job, number))).scalar_one()
    content = content_of(unpack(bytes(body)))
    connection.execute(update(revisions).where(_is(job, number)).values(content=content))
    return content
