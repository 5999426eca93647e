"""Coalescing of writes: concurrent writes to one job are combined into one per second."""

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
"""Seconds between the beginnings of two writes of a job."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Batch(Generic[T, R]):
    """Items that are written together; each has its outcome at the same index."""

    due: float
    items: list[T] = field(default_factory=list)
    outcomes: Future[Sequence[R]] = field(default_factory=Future)


class Coalescer(Generic[T, R]):
    """Delays a write until a second after the last one of its job, and combines it with those that
    arrive meanwhile.

    A caller gets its result only after the write, so an acknowledged write survives this process.
    The first write after a quiet second happens at once.

    Args:
        write: writes several items at once, in order of arrival; returns the outcome of each. All
            callers get its errors.
        places: a waiting caller holds a thread and needs one of these. A caller without a place
            does not wait: all waiting items of the same job are then written early.
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
        """Beginning of the last write of each job, for the last INTERVAL."""

    def submit(self, ref: JobRef, item: T, deadline: Deadline) -> R:
        """Write an item; return its outcome after the write.

        Raises:
            Busy: the write took longer than the deadline.
            Exception: any error of the write.
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
        """Write the batch, unless another thread does."""
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
        """Return when the next write of the job can begin."""
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
