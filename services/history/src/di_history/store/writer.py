"""Writes records, each at most once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Engine, delete, or_, update
from sqlalchemy.dialects import postgresql, sqlite

from di_history.packing import last_lines, pack, to_json
from di_history.records import (
    EndedLog,
    Entry,
    JobGone,
    JobSeen,
    Millis,
    Placement,
    Record,
    Revision,
    Sample,
    WholeLog,
)
from di_history.store.revisions import bound_revisions, content_of
from di_history.store.shares import KINDS, bound_job, bound_log_bodies, lock_jobs
from di_history.store.tables import entries, jobs, logs, marks, placements, revisions, samples

FOLLOWED: Final = "followed"
"""Name of the mark with the last time until which everything was written."""
_LONGEST_KEY: Final = 255
_LONGEST_NAME: Final = 253
_LONGEST_TEXT: Final = 4096
_KEYS: Final = ("uid", "job", "number", "key", "pod_uid", "container", "attempt")
_OF_WHOLE: Final = ("whole_key", "whole_size", "whole_cut", "whole_note")
Row = dict[str, Any]


class Writer:
    """Writes batches, each in one transaction: completely, or after an error not at all.

    Existing rows stay, unless the new one has a later version of the same object. So a batch can be
    written again after a lost response, and by every replica.

    Args:
        job_log_bytes: maximum bytes, as stored, of the logs of one job. Beyond it the oldest are
            deleted, those of failed pods last.
        job_bytes: maximum bytes of the rest of one job, an equal share for each kind of record. A
            job can exceed a share by an eighth until the next sweep.
    """

    def __init__(self, engine: Engine, *, job_log_bytes: int, job_bytes: int) -> None:
        self._engine = engine
        self._job_log_bytes = job_log_bytes
        self._job_bytes = job_bytes
        self._lock = threading.Lock()
        self._grown: Counter[str] = Counter()
        self._unswept: Counter[str] = Counter()
        dialect = sqlite if engine.dialect.name == "sqlite" else postgresql
        self._insert: Any = dialect.insert
        self._once = {
            table.name: self._insert(table).on_conflict_do_nothing()
            for table in (revisions, samples)
        }
        self._seen = self._newer(jobs, keep=("owner", "created", "bytes", "deleted"))
        self._entry = self._newer(entries)
        self._placement = self._newer(placements)
        self._log = self._replace_unfinished()

    def write(self, batch: Iterable[Record], *, followed: Millis | None = None) -> None:
        """Write records in order, then the mark that everything until `followed` is written.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: nothing is written.
        """
        found: dict[type[Record], list[Any]] = {}
        for record in batch:
            found.setdefault(type(record), []).append(record)
        revised = [_revision(each) for each in found.get(Revision, ())]
        logged = [_log(each) for each in found.get(EndedLog, ())]
        new = {
            self._once["revisions"]: revised,
            self._entry: [_entry(each) for each in found.get(Entry, ())],
            self._placement: [_placement(each) for each in found.get(Placement, ())],
            self._once["samples"]: [_sample(each) for each in found.get(Sample, ())],
            self._log: logged,
        }
        written: Counter[str] = Counter()
        for row in (each for rows in new.values() for each in rows):
            written[row["job"]] += _bytes(row)
        seen = [_job(each) for each in found.get(JobSeen, ())]
        part = self._job_bytes // KINDS
        grown = {job for job in written if self._grown[job] + written[job] > part // 8}
        others = [each.uid for each in found.get(JobGone, ())]
        others += [each.job for each in found.get(WholeLog, ())]
        with self._engine.begin() as connection:
            lock_jobs(connection, {*written, *(row["uid"] for row in seen), *others})
            self._execute(connection, self._seen, seen)
            for statement, rows in new.items():
                self._execute(connection, statement, rows)
            for gone in sorted(found.get(JobGone, ()), key=lambda each: str(each.uid)):
                connection.execute(
                    update(jobs).where(jobs.c.uid == gone.uid, jobs.c.deleted.is_(None)),
                    {"deleted": gone.at, "seen": gone.at},
                )
            for whole in sorted(found.get(WholeLog, ()), key=lambda each: str(each.job)):
                connection.execute(_whole(whole))
            for job in sorted({row["job"] for row in logged}):
                bound_log_bodies(connection, job, self._job_log_bytes)
            for job in sorted({row["job"] for row in revised} - grown):
                bound_revisions(connection, job, part)
            for job in sorted(grown):
                bound_job(connection, job, self._job_bytes)
            if followed is not None:
                self._mark(connection, FOLLOWED, followed)
        for job in written:
            self._grown[job] = 0 if job in grown else self._grown[job] + written[job]
        for row in seen:
            written[row["uid"]] += _bytes(row)
        with self._lock:
            self._unswept += written

    @property
    def unswept(self) -> int:
        """Return the bytes written since `take_unswept`."""
        with self._lock:
            return self._unswept.total()

    def take_unswept(self) -> set[str]:
        """Return the jobs with new records since the last call."""
        with self._lock:
            found, self._unswept = set(self._unswept), Counter()
        # The sweep reduces them.
        for job in found:
            self._grown.pop(job, None)
        return found

    def _execute(self, connection: Connection, statement: Any, rows: Iterable[Row]) -> None:
        # In the same order in all replicas, or two of them could deadlock.
        found = sorted(rows, key=lambda row: [str(row[name]) for name in _KEYS if name in row])
        if found:
            connection.execute(statement, found)

    def _mark(self, connection: Connection, name: str, at: Millis) -> None:
        statement = self._insert(marks).values(name=name, at=at)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["name"],
                set_={"at": statement.excluded.at},
                where=statement.excluded.at > marks.c.at,
            )
        )

    def _newer(self, table: Any, keep: Sequence[str] = ()) -> Any:
        """Return a statement that inserts, or replaces an earlier version except for the columns in
        `keep`.
        """
        statement = self._insert(table)
        key = [column.name for column in table.primary_key]
        changed = [each.name for each in table.columns if each.name not in (*key, *keep)]
        return statement.on_conflict_do_update(
            index_elements=key,
            set_={name: statement.excluded[name] for name in changed},
            where=statement.excluded.version > table.c.version,
        )

    def _replace_unfinished(self) -> Any:
        """Return a statement that inserts a log, or replaces one that was read before its container
        had ended.
        """
        statement = self._insert(logs)
        new = statement.excluded
        key = [column.name for column in logs.primary_key]
        return statement.on_conflict_do_update(
            index_elements=key,
            set_={
                each.name: new[each.name]
                for each in logs.columns
                if each.name not in (*key, *_OF_WHOLE)
            },
            # An unreadable log never replaces a readable one.
            where=(logs.c.final.is_(False)) & (or_(new.body.is_not(None), logs.c.body.is_(None))),
        )


def _job(seen: JobSeen) -> Row:
    return {
        "uid": seen.uid,
        "namespace": seen.namespace,
        "name": seen.name,
        "owner": _text(seen.owner, _LONGEST_NAME),
        "created": seen.created,
        "phase": _text(seen.phase, 32),
        "completed": seen.completed,
        "seen": seen.seen,
        "version": seen.version,
        "snapshot": pack(seen.snapshot),
    }


def _revision(revision: Revision) -> Row:
    return {
        "job": revision.job,
        "number": revision.number,
        "at": revision.at,
        "who": _text(revision.who, _LONGEST_NAME),
        "manifest": pack(revision.manifest),
        "content": content_of(revision.manifest),
    }


def _entry(entry: Entry) -> Row:
    return {
        "job": entry.job,
        "key": _text(entry.key, _LONGEST_KEY),
        "kind": entry.kind.value,
        "at": entry.at,
        "version": entry.version,
        "data": _json(entry.data),
    }


def _placement(placement: Placement) -> Row:
    return {
        "job": placement.job,
        "pod_uid": placement.pod_uid,
        "namespace": placement.namespace,
        "pod": placement.pod,
        "task": _text(placement.task, 63),
        "rank": placement.rank,
        "node": _text(placement.node, _LONGEST_NAME),
        "gpus": placement.gpus,
        "since": placement.since,
        "until": placement.until,
        "outcome": placement.outcome,
        "reason": _text(placement.reason, 128),
        "exit_code": placement.exit_code,
        "version": placement.version,
        "kind": _text(placement.kind, 63),
    }


def _sample(sample: Sample) -> Row:
    return {
        "job": sample.job,
        "at": sample.at,
        "step": sample.values.get("step"),
        "values": _json(sample.values),
    }


def _log(log: EndedLog) -> Row:
    body = None if log.text is None else pack(log.text)
    return {
        "job": log.job,
        "pod_uid": log.pod_uid,
        "container": log.container,
        "attempt": log.attempt,
        "pod": log.pod,
        "at": log.at,
        "size": len(log.text or b""),
        "stored": len(body or b""),
        "cut": log.cut,
        "final": log.final,
        "failed": log.failed,
        "note": _text(log.note, 255),
        "tail": last_lines(log.text or b""),
        "body": body,
    }


def _whole(whole: WholeLog) -> Any:
    """Return a statement that stores the location of a whole log. A missing object never replaces
    an existing one.
    """
    statement = update(logs).where(
        logs.c.job == whole.job,
        logs.c.pod_uid == whole.pod_uid,
        logs.c.container == whole.container,
        logs.c.attempt == whole.attempt,
    )
    if not whole.key:
        note = _text(whole.note, 255)
        return statement.where(logs.c.whole_key.is_(None)).values(whole_note=note)
    return statement.values(
        whole_key=whole.key, whole_size=whole.size, whole_cut=whole.cut, whole_note=None
    )


def _json(value: Mapping[str, Any]) -> str:
    bounded = {
        key: _text(each, _LONGEST_TEXT) if isinstance(each, str) else each
        for key, each in value.items()
    }
    # PostgreSQL accepts no NUL in text; JSON writes it as an escape, which is accepted.
    return to_json(bounded).decode()


def _bytes(row: Row) -> int:
    return sum(len(each) if isinstance(each, str | bytes) else 8 for each in row.values())


def _text(text: str, longest: int) -> str:
    return text.replace("\x00", "\ufffd")[:longest]


def forget(connection: Connection, uids: Sequence[str], tables: Iterable[Any]) -> None:
    """Delete jobs and all their records."""
    for table in tables:
        connection.execute(delete(table).where(table.c.job.in_(uids)))
    connection.execute(delete(jobs).where(jobs.c.uid.in_(uids)))
