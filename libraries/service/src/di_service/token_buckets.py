"""Rate limits with bursts: a token bucket for each key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

_MOST: Final = 10_000

K = TypeVar("K", bound=Hashable)


class TokenBuckets(Generic[K]):
    """Token buckets by key: each holds up to `burst` tokens and gains `rate` tokens a second; per
    process.

    When there are too many buckets, the longest unused one is dropped; except in a flood it is full
    again by then.
    """

    def __init__(self, *, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        # key: (tokens left, at what time).
        self._buckets: OrderedDict[K, tuple[float, float]] = OrderedDict()

    def wait(self, key: K) -> float:
        """Return the seconds until the key has a token; 0 if it has one."""
        with self._lock:
            tokens, _ = self._level(key)
        return max(0.0, (1 - tokens) / self._rate)

    def take(self, key: K, *, owed: float = 0.0) -> float:
        """Take a token of the key; the bucket can go into debt by up to `owed` tokens.

        Returns:
            0 if a token was taken, else the seconds until there is one.
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
        """Return a token to the bucket, up to its maximum."""
        with self._lock:
            tokens, now = self._level(key)
            if key in self._buckets:
                self._buckets[key] = (min(self._burst, tokens + 1), now)

    def _level(self, key: K) -> tuple[float, float]:
        now = self._clock()
        tokens, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, tokens + (now - since) * self._rate), now
