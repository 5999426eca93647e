"""Records on their way to the database: gathered, and written by one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from di_api.service.backoff import Backoff
from di_api.wording import describe
from di_history.metrics import Metrics
from di_history.records import Millis, Record
from di_history.store.writer import Writer
from di_history.waiting import Queue

_log = structlog.get_logger()

AT_ONCE: Final = 1000
"""Records of one transaction."""
BYTES_AT_ONCE: Final = 16 << 20
"""Of one transaction, but for a record that has more alone."""
MOST_BYTES: Final = 128 << 20
"""Of all records that wait."""
_JOB_REVISIONS: Final = MOST_BYTES // 16
_GATHER_SECONDS: Final = 0.25
_MARK_SECONDS: Final = 15.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0


class Overflow(Exception):
    """The database has been away for so long that records would have to be dropped."""


class Batches:
    """Takes records at once and writes them soon, in their order.

    While the database is away they wait. When there is no more room for them nothing is taken
    until it is back: whoever follows starts again then from what is written.

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
        self._full = False
        self._writing = False
        self._ending = threading.Event()
        self._marked_at = -_MARK_SECONDS
        metrics.count_waiting(lambda: len(self._waiting), lambda: self._waiting.bytes)

    def put(self, records: Iterable[Record]) -> None:
        """Hand records over; never waits.

        Raises:
            Overflow: there is no room; of these records and later ones nothing is taken.
        """
        with self._changed:
            for record in records:
                if self._full or self._waiting.bytes > MOST_BYTES:
                    self._full = True
                    raise Overflow
                self._waiting.put(record)
            self._changed.notify_all()

    def drained(self, timeout: float) -> bool:
        """Wait until all is written, then take records again; False: not in `timeout` seconds."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: not self._waiting and not self._writing, timeout=timeout
            )
            if done:
                self._full = False
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
        due = self._clock() - self._marked_at >= _MARK_SECONDS
        mark = followed if due and not rest and not self._full else None
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
            self._changed.notify_all()
        return rest > 0
