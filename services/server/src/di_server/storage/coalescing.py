"""Writes of one job that come one upon the other, joined into one a second."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from di_server.deadline import Clock, Deadline
from di_server.model.references import JobRef
from di_server.problems import Busy

INTERVAL: Final = 1.0
"""Seconds from the beginning of one write of a job to that of the next."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Batch(Generic[T, R]):
    """What is written together; each item's outcome is at its own place."""

    due: float
    items: list[T] = field(default_factory=list)
    outcomes: Future[Sequence[R]] = field(default_factory=Future)


class Coalescer(Generic[T, R]):
    """Holds a write back until a second after the last one of its job, with what comes meanwhile.

    Nobody is answered before the write: what was acknowledged outlives this process. The first
    write after a quiet second is made at once.

    Args:
        write: makes one write of several items, in the order they came; returns the outcome of
            each. What it raises all of them meet.
        places: each who waits holds a thread, and needs one of these. Who finds none waits for
            nobody: what waits for the same job is then written early.
    """

    def __init__(
        self,
        write: Callable[[JobRef, Sequence[T], Deadline], Sequence[R]],
        *,
        places: threading.Semaphore,
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        self._write = write
        self._places = places
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: dict[JobRef, _Batch[T, R]] = {}
        self._begun: OrderedDict[JobRef, float] = OrderedDict()
        """When the last write of a job began; of the last INTERVAL."""

    def submit(self, ref: JobRef, item: T, deadline: Deadline) -> R:
        """Have an item written; returns its outcome once it is.

        Raises:
            Busy: the write took longer than the deadline leaves.
            Exception: whatever the write raised.
        """
        with self._lock:
            batch = self._open.get(ref)
            leads = batch is None
            if batch is None:
                batch = self._open[ref] = _Batch(due=self._due(ref))
            place = len(batch.items)
            batch.items.append(item)
        wait = batch.due - self._clock()
        if wait > 0 and self._places.acquire(blocking=False):
            try:
                if leads:
                    self._sleep(wait)
                    self._finish(ref, batch, deadline)
                return self._outcome(batch, place, deadline)
            finally:
                self._places.release()
        self._finish(ref, batch, deadline)
        return self._outcome(batch, place, deadline)

    def _finish(self, ref: JobRef, batch: _Batch[T, R], deadline: Deadline) -> None:
        """Write the batch, unless somebody else does."""
        with self._lock:
            if self._open.get(ref) is not batch:
                return
            del self._open[ref]
            self._begun[ref] = self._clock()
            self._begun.move_to_end(ref)
        try:
            batch.outcomes.set_result(self._write(ref, batch.items, deadline))
        except BaseException as error:
            batch.outcomes.set_exception(error)

    def _due(self, ref: JobRef) -> float:
        """When the next write of the job may begin."""
        now = self._clock()
        while self._begun and next(iter(self._begun.values())) <= now - INTERVAL:
            self._begun.popitem(last=False)
        begun = self._begun.get(ref)
        return now if begun is None else begun + INTERVAL

    @staticmethod
    def _outcome(batch: _Batch[T, R], place: int, deadline: Deadline) -> R:
        try:
            return batch.outcomes.result(max(0.0, deadline.left()))[place]
        except TimeoutError as error:
            raise Busy("the write took too long, try again", retry_after=1) from error
