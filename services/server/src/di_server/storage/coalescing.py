"""Coalescing of writes: concurrent writes to one job are combined."""

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
from di_server.storage.locks import Locks

INTERVAL: Final = 1.0
"""Seconds between two writes of a job, unless its pace is another."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Batch(Generic[T, R]):
    """Items that are written together; each has its outcome at the same index."""

    due: float
    items: list[T] = field(default_factory=list)
    outcomes: Future[Sequence[R]] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a job is written.

    Attributes:
        interval: seconds between two writes, on average.
        burst: number of writes that can follow each other without these seconds.
        share: maximum part of the time that writes of the job take. A large job, or a busy API
            server, makes them slow, so there are fewer.
    """

    interval: float = INTERVAL
    burst: int = 1
    share: float = 1.0


class Coalescer(Generic[T, R]):
    """Writes the items of a job at the pace that it is given, one write at a time.

    Items that arrive while a write is under way, or before the next one can begin, are written
    together (group commit). A caller gets its result only after the write, so an acknowledged write
    survives this process. The first write after a quiet time happens at once.

    Args:
        write: writes several items at once, in order of arrival; returns the outcome of each. All
            callers get its errors.
        places: a caller that waits for the pace holds a thread and needs one of these. A caller
            without a place does not wait: all waiting items of the same job are then written early.
    """

    def __init__(
        self,
        write: Callable[[JobRef, Sequence[T], Deadline], Sequence[R]],
        *,
        places: threading.Semaphore,
        clock: Clock,
        sleep: Callable[[float], None],
        pace: Pace = Pace(),
    ) -> None:
        self._write = write
        self._places = places
        self._clock = clock
        self._sleep = sleep
        self._pace = pace
        self._lock = threading.Lock()
        self._open: dict[JobRef, _Batch[T, R]] = {}
        self._spent: OrderedDict[JobRef, float] = OrderedDict()
        """Time at which the pace has forgotten the writes of a job (GCRA)."""
        self._turns = Locks[JobRef]()

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
        if leads:
            self._finish(ref, batch, deadline)
        elif batch.due > self._clock():
            if self._places.acquire(blocking=False):
                try:
                    return self._outcome(batch, place, deadline)
                finally:
                    self._places.release()
            self._finish(ref, batch, deadline, is_early=True)
        return self._outcome(batch, place, deadline)

    def _finish(
        self, ref: JobRef, batch: _Batch[T, R], deadline: Deadline, *, is_early: bool = False
    ) -> None:
        """Write the batch when it is due and no other one of the job is being written, unless
        another thread does. Without a place to wait it is early.
        """
        while True:
            with self._turns.hold(ref, max(0.0, deadline.left())) as has_turn:
                is_over = not has_turn or deadline.left() <= 0
                rest = self._begin(ref, batch, is_early=is_early or is_over)
                if rest is None:
                    return
                if rest <= 0:
                    self._write_batch(ref, batch, deadline, has_turn=has_turn)
                    return
            is_early = not self._places.acquire(blocking=False)
            if not is_early:
                try:
                    self._sleep(min(rest, max(0.0, deadline.left())))
                finally:
                    self._places.release()

    def _begin(self, ref: JobRef, batch: _Batch[T, R], *, is_early: bool) -> float | None:
        """Close the batch for its write; or return how many seconds are left until it is due, or
        None if another thread has written it. Items are added until here.
        """
        with self._lock:
            if self._open.get(ref) is not batch:
                return None
            now = self._clock()
            if batch.due > now and not is_early:
                return batch.due - now
            del self._open[ref]
            self._spend(ref, now, self._pace.interval, of=self._pace.interval)
            return 0.0

    def _write_batch(
        self, ref: JobRef, batch: _Batch[T, R], deadline: Deadline, *, has_turn: bool
    ) -> None:
        began = self._clock()
        try:
            if not has_turn:
                raise _too_slow()
            try:
                outcomes = self._write(ref, batch.items, deadline)
            finally:
                # Before the callers return: their next requests keep the pace.
                self._delay_next(ref, began)
            batch.outcomes.set_result(outcomes)
        except BaseException as error:
            batch.outcomes.set_exception(error)

    def _delay_next(self, ref: JobRef, began: float) -> None:
        """Delay the next write by what the one that began then took beyond its share."""
        cost = (self._clock() - began) / self._pace.share
        if cost <= self._pace.interval:
            return
        with self._lock:
            self._spend(ref, began, cost - self._pace.interval, of=cost)
            if (waiting := self._open.get(ref)) is not None:
                waiting.due = max(waiting.due, self._due(ref))

    def _due(self, ref: JobRef) -> float:
        """Return when the next write of the job can begin."""
        now = self._clock()
        while self._spent and next(iter(self._spent.values())) <= now:
            self._spent.popitem(last=False)
        return max(now, self._spent.get(ref, now) - self._credit)

    @property
    def _credit(self) -> float:
        """Seconds by which the writes of a job may be ahead of the pace."""
        return (self._pace.burst - 1) * self._pace.interval

    def _spend(self, ref: JobRef, began: float, seconds: float, *, of: float) -> None:
        """Delay later writes by seconds `of` what a write costs.

        Writes that came before their turn, because there was no place to wait, are not added up:
        the next request would wait for all of them.
        """
        spent = max(began, self._spent.get(ref, began)) + seconds
        self._spent[ref] = min(spent, began + self._credit + of)
        self._spent.move_to_end(ref)

    @staticmethod
    def _outcome(batch: _Batch[T, R], place: int, deadline: Deadline) -> R:
        try:
            return batch.outcomes.result(max(0.0, deadline.left()))[place]
        except TimeoutError as error:
            raise _too_slow() from error


def _too_slow() -> Busy:
    return Busy("the write took too long, try again", retry_after=1)
