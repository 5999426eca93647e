"""Batches of records for the database, written by one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from di_api.wording import describe
from di_history.metrics import Metrics
from di_history.records import Millis, Record
from di_history.store.writer import Writer
from di_history.waiting import Queue, job_of
from di_kube.backoff import Backoff

_log = structlog.get_logger()

AT_ONCE: Final = 1000
"""Maximum number of records of one transaction."""
BYTES_AT_ONCE: Final = 16 << 20
"""Maximum bytes of one transaction, except for a single larger record."""
MOST_BYTES: Final = 128 << 20
"""Maximum bytes of all waiting records."""
_SHRUNK_PART: Final = 16
_JOB_REVISIONS: Final = MOST_BYTES // 16
_GATHER_SECONDS: Final = 0.25
_MARK_SECONDS: Final = 15.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Batches:
    """Accepts records at once and writes them soon, in order.

    They wait while the database is unreachable. Beyond MOST_BYTES a namespace above its fair share
    loses whole jobs, each with all its waiting records. A job that lost records accepts none until
    the rest is written; the follower then compares it with the stored data and calls `resume`.

    Args:
        followed: returns the time until which every change has been passed on; None: unknown.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        metrics: Metrics,
        followed: Callable[[], Millis | None],
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._writer = writer
        self._metrics = metrics
        self._followed = followed
        self._clock = clock
        self._backoff = Backoff(minimum=_FIRST_PAUSE, maximum=_LONGEST_PAUSE, rng=rng)
        self._changed = threading.Condition()
        self._waiting = Queue(job_revisions=_JOB_REVISIONS)
        # Jobs that lost records; the second collection has to be compared with the stored data.
        self._lost: dict[str, None] = {}
        self._writable: dict[str, None] = {}
        self._writing = False
        self._ending = threading.Event()
        self._marked_at = -_MARK_SECONDS
        metrics.count_waiting(lambda: len(self._waiting), lambda: self._waiting.bytes)

    def put(self, namespace: str, records: Iterable[Record]) -> None:
        """Add records of jobs of a namespace; never waits."""
        with self._changed:
            for record in records:
                if (uid := job_of(record)) in self._lost or uid in self._writable:
                    self._metrics.dropped.inc()
                    continue
                self._waiting.put(namespace, record)
                if self._waiting.bytes > MOST_BYTES:
                    self._shrink()
            self._changed.notify_all()

    def lost(self, most: int) -> list[str]:
        """Return the UIDs of up to `most` jobs that lost records, and whose records can be written
        again.

        Their records are not accepted before `resume`.
        """
        with self._changed:
            return list(islice(self._writable, most))

    def resume(self, uids: Iterable[str]) -> None:
        """Accept records of these jobs again."""
        with self._changed:
            for uid in uids:
                self._writable.pop(uid, None)

    def drained(self, timeout: float) -> bool:
        """Wait until everything is written, then accept records of all jobs; return False after
        `timeout` seconds.
        """
        with self._changed:
            done = self._changed.wait_for(
                lambda: not self._waiting and not self._writing, timeout=timeout
            )
            if done:
                self._lost.clear()
                self._writable.clear()
            return done

    def run(self) -> None:
        """Write until `end` is called, then write the rest once."""
        while not self._ending.is_set():
            self._ending.wait(_GATHER_SECONDS)
            while self._write_some() and not self._ending.is_set():
                pass
        while self._waiting and self._write_some():
            pass

    def end(self) -> None:
        """Make `run` return soon."""
        self._ending.set()
        with self._changed:
            self._changed.notify_all()

    def _write_some(self) -> bool:
        """Write one batch; return False if there was none, or the write failed."""
        # Read before the batch is taken: later records are not in it.
        with self._changed:
            followed = self._followed()
            batch = self._waiting.take(records=AT_ONCE, most=BYTES_AT_ONCE)
            rest = len(self._waiting)
            self._writing = bool(batch)
            if not batch:
                self._release()
            is_whole = not rest and not self._lost and not self._writable
        due = self._clock() - self._marked_at >= _MARK_SECONDS
        mark = followed if due and is_whole else None
        if not batch and mark is None:
            return False
        try:
            began = self._clock()
            self._writer.write([each.record for each in batch], followed=mark)
        except SQLAlchemyError as error:
            with self._changed:
                self._waiting.put_back(batch)
                self._writing = False
            self._metrics.writes.labels("failed").inc()
            pause = self._backoff.delay()
            _log.warning("not written", records=len(batch), pause=pause, error=describe(error))
            self._ending.wait(pause)
            return False
        self._backoff.reset()
        self._metrics.writes.labels("good").inc()
        self._metrics.records.inc(len(batch))
        self._metrics.write_seconds.observe(self._clock() - began)
        if mark is not None:
            self._marked_at = self._clock()
        with self._changed:
            self._writing = False
            if not rest:
                self._release()
            self._changed.notify_all()
        return rest > 0

    def _shrink(self) -> None:
        # Some more than necessary, because each time all waiting jobs are weighed.
        for uid, records in self._waiting.shrink(MOST_BYTES - MOST_BYTES // _SHRUNK_PART):
            self._lost[uid] = None
            self._metrics.dropped.inc(records)
            _log.warning("records dropped", job=uid, records=records)

    def _release(self) -> None:
        """Record that the database keeps up again: everything that waited is written."""
        self._writable |= self._lost
        self._lost.clear()
