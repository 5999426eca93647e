"""The work queue: the jobs to reconcile, now or later."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Callable, Hashable
from random import Random
from typing import Generic, TypeVar

from di_kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class KeyQueue(Generic[K]):
    """A queue of keys in which a key waits at most once and is held by one worker at a time.

    An event only requests a reconcile of its job, so a hundred events of one job need one
    reconcile. A key that is added while a worker holds it is queued again when that worker is done,
    because the reconcile may have read the state before the event.

    Groups of keys take turns, and each group is first in, first out: ten thousand keys of one group
    delay the others by one key. The queue belongs to one event loop and is not thread-safe.
    """

    def __init__(
        self,
        *,
        group: Callable[[K], Hashable] = lambda _: None,
        at_once: int = sys.maxsize,
        rest: float = 0.0,
    ) -> None:
        """Create an empty queue.

        Args:
            group: returns the group of a key.
            at_once: maximum number of keys of a group that workers hold at a time.
            rest: seconds for which a key that is done still counts as held.
        """
        self._group = group
        self._at_once = at_once
        self._rest = rest
        self._ready: dict[Hashable, deque[K]] = {}
        # Groups with a key that can be handed out; the first one is next.
        self._turns: dict[Hashable, None] = {}
        self._handed_out: Counter[Hashable] = Counter()
        self._dirty: set[K] = set()
        self._active: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of keys that wait for a worker now (not those with a delay)."""
        return sum(map(len, self._ready.values()))

    @property
    def delayed(self) -> int:
        """Return the number of keys that wait for a later time."""
        return len(self._timers)

    def add(self, key: K) -> None:
        """Queue `key` for the next free worker."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._active:
            self._push(key)

    def add_after(self, key: K, delay: float) -> None:
        """Queue `key` in `delay` seconds; the earliest of several requests counts."""
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

        A pending delay of the key is dropped: the reconcile that follows decides when the next one
        is due.

        Raises:
            QueueClosed: the queue was closed.
        """
        while not self._turns:
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
        key = self._pop()
        self._dirty.discard(key)
        self._active.add(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        return key

    def done(self, key: K) -> None:
        """Return `key` to the queue; it is queued again if it was added meanwhile."""
        self._active.discard(key)
        group = self._group(key)
        if key in self._dirty and not self._closed:
            self._push(key)
        if self._rest > 0 and not self._closed:
            asyncio.get_running_loop().call_later(self._rest, self._give_back, group)
        else:
            self._give_back(group)

    def close(self) -> None:
        """Close the queue: every present and later `get` raises QueueClosed."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._waiters:
            self._wake()

    def _push(self, key: K) -> None:
        group = self._group(key)
        self._ready.setdefault(group, deque()).append(key)
        self._give_turn(group)

    def _pop(self) -> K:
        group = next(iter(self._turns))
        del self._turns[group]
        keys = self._ready[group]
        key = keys.popleft()
        if not keys:
            del self._ready[group]
        self._handed_out[group] += 1
        self._give_turn(group)
        return key

    def _give_back(self, group: Hashable) -> None:
        """Count one key of a group less as handed out."""
        self._handed_out[group] -= 1
        if not self._handed_out[group]:
            del self._handed_out[group]
        self._give_turn(group)

    def _give_turn(self, group: Hashable) -> None:
        """Put a group behind all others if it has a key that can be handed out."""
        if group in self._ready and self._handed_out[group] < self._at_once:
            self._turns.setdefault(group)
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
    """The queue was closed."""


class KeyedBackoff(Generic[K]):
    """Delays that double with each failure of a key, with jitter.

    Args:
        minimum, maximum: seconds.
        rng: source of the jitter, so that jobs that failed together (the API server was
            unreachable) do not return together.
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
        """Reset the backoff of `key`: it succeeded or is gone."""
        self._by_key.pop(key, None)
