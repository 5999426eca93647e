"""The work queue: which jobs want a look, now or later."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

from di_api.service.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class KeyQueue(Generic[K]):
    """A queue of keys in which a key waits at most once and is worked on by one worker at a time.

    An event says only that a job wants a look, so a hundred events of one job are worth one
    look. A key added while a worker has it comes back when that worker is done: the look may
    have been taken before the event. Belongs to one event loop; not thread-safe.
    """

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        self._active: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of keys waiting for a worker now (not those with a delay)."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """The number of keys waiting for a later moment."""
        return len(self._timers)

    def add(self, key: K) -> None:
        """Ask for a look at `key` as soon as a worker is free."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._active:
            self._push(key)

    def add_after(self, key: K, delay: float) -> None:
        """Ask for a look at `key` in `delay` seconds; the earliest of several requests counts."""
        if delay <= 0:
            self.add(key)
            return
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay, self._expire, key)

    async def get(self) -> K:
        """Wait for a key and take it; the caller must call `done` with it afterwards.

        A pending delay of the key is dropped: the look about to be taken decides anew when the
        next one is due.

        Raises:
            QueueClosed: the queue was closed.
        """
        while not self._ready:
            if self._closed:
                raise QueueClosed
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
        if self._closed:
            raise QueueClosed
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._active.add(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        return key

    def done(self, key: K) -> None:
        """Give `key` back; it is queued again if it was added meanwhile."""
        self._active.discard(key)
        if key in self._dirty and not self._closed:
            self._push(key)

    def close(self) -> None:
        """Hand out no more keys: every present and later `get` raises QueueClosed."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._waiters:
            self._wake()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _expire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)


class QueueClosed(Exception):
    """The queue hands out no more keys."""


class KeyedBackoff(Generic[K]):
    """Delays that double with each failure of a key, with jitter.

    Args:
        minimum, maximum: seconds.
        rng: source of the jitter, so that jobs that failed together (the API server was away) do
            not come back together.
    """

    def __init__(self, *, minimum: float, maximum: float, rng: Random) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._rng = rng
        self._by_key: dict[K, Backoff] = {}

    def next(self, key: K) -> float:
        """Return the delay in seconds after one more failure of `key`."""
        backoff = self._by_key.get(key)
        if backoff is None:
            backoff = Backoff(minimum=self._minimum, maximum=self._maximum, rng=self._rng)
            self._by_key[key] = backoff
        return backoff.delay()

    def forget(self, key: K) -> None:
        """Start the series of `key` anew: it succeeded or is gone."""
        self._by_key.pop(key, None)
