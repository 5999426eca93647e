"""Rates that hold for long, with bursts that do not."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_MOST: Final = 10_000

K = TypeVar("K", bound=Hashable)


class TokenBuckets(Generic[K]):
    """Each holds `burst` tokens and gets `rate` a second back; per server process.

    The bucket longest unused goes first when there are too many; it is full again by then in all
    but a flood.
    """

    def __init__(self, *, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        # key: (tokens left, when that was so).
        self._buckets: OrderedDict[K, tuple[float, float]] = OrderedDict()

    def wait(self, key: K) -> float:
        """Seconds until there is a token; 0 while there is one."""
        with self._lock:
            tokens, _ = self._level(key)
        return max(0.0, (1 - tokens) / self._rate)

    def take(self, key: K, *, owed: float = 0.0) -> float:
        """Take a token, also one that is not there while at most `owed` are then missing.

        Returns:
            0, or when none was taken the seconds until there is one.
        """
        with self._lock:
            tokens, now = self._level(key)
            taken = tokens - 1 >= -owed
            self._buckets.pop(key, None)
            self._buckets[key] = (tokens - taken, now)
            if len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - tokens) / self._rate

    def give(self, key: K) -> None:
        """Put a token back, into a bucket that is not full."""
        with self._lock:
            tokens, now = self._level(key)
            if key in self._buckets:
                self._buckets[key] = (min(self._burst, tokens + 1), now)

    def _level(self, key: K) -> tuple[float, float]:
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, tokens + (now - since) * self._rate), now
