"""Records on their way to the database: gathered, and written by one thread."""

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
"""Records of one transaction."""
BYTES_AT_ONCE: Final = 16 << 20
"""Of one transaction, but for a record that has more alone."""
MOST_BYTES: Final = 128 << 20
"""Of all records that wait."""
_SHRUNK_PART: Final = 16
_JOB_REVISIONS: Final = MOST_BYTES // 16
_GATHER_SECONDS: Final = 0.25
_MARK_SECONDS: Final = 15.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Batches:
    """Takes records at once and writes them soon, in their order.

    While the database is away they wait. Past MOST_BYTES a namespace that exceeds its fair share
    loses jobs, each with all that waits of it. Of a job that lost records nothing is taken until
    the rest is written; the follower then compares it with what is stored, and calls `resume`.

    Args:
        followed: until when all that happened has been handed over; None: that is not known now.
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
        # Jobs that lost records; those of the second are to be compared with what is stored.
        self._lost: dict[str, None] = {}
        self._writable: dict[str, None] = {}
        self._writing = False
        self._ending = threading.Event()
        self._marked_at = -_MARK_SECONDS
        metrics.count_waiting(lambda: len(self._waiting), lambda: self._waiting.bytes)

    def put(self, namespace: str, records: Iterable[Record]) -> None:
        """Hand over records of jobs of a namespace; never waits."""
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
        """UIDs of up to `most` jobs that lost records, and of which records can be written again.

        None of their records is taken before `resume`.
        """
        with self._changed:
            return list(islice(self._writable, most))

    def resume(self, uids: Iterable[str]) -> None:
        """Take records of these jobs again."""
        with self._changed:
            for uid in uids:
                self._writable.pop(uid, None)

    def drained(self, timeout: float) -> bool:
        """Wait until all is written, then take records of all jobs; False: not in `timeout` s."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: not self._waiting and not self._writing, timeout=timeout
            )
            if done:
                self._lost.clear()
                self._writable.clear()
            return done

    def run(self) -> None:
        """Write until `end`, and then what is left, once."""
        while not self._ending.is_set():
            self._ending.wait(_GATHER_SECONDS)
            while self._write_some() and not self._ending.is_set():
                pass
        while self._waiting and self._write_some():
            pass

    def end(self) -> None:
        """Have `run` return soon."""
        self._ending.set()
        with self._changed:
            self._changed.notify_all()

    def _write_some(self) -> bool:
        """Write one batch; False: there was none, or it could not be written yet."""
        # Before the batch is taken: what is handed over meanwhile is not in it.
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
        # Some more than must be: each time, all jobs that wait are weighed.
        for uid, records in self._waiting.shrink(MOST_BYTES - MOST_BYTES // _SHRUNK_PART):
            self._lost[uid] = None
            self._metrics.dropped.inc(records)
            _log.warning("records dropped", job=uid, records=records)

    def _release(self) -> None:
        """Note that the database keeps up again: what waited is written."""
        self._writable |= self._lost
        self._lost.clear()
