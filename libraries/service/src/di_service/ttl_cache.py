"""Results kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, good for some seconds; the one longest unused goes when there are too many.

    Args:
        seconds: how long a value is good.
        most: how many are kept, old ones too.
        clock: monotonic seconds.
    """

    def __init__(self, *, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, None if there is none that is good."""
        with self._lock:
            until, value = self._kept.get(key, (0.0, None))
            if value is not None:
                self._kept.move_to_end(key)
        return value if until > self._clock() else None

    def had(self, key: K) -> bool:
        """Whether there is a value, however old."""
        with self._lock:
            return key in self._kept

    def put(self, key: K, value: V) -> None:
        """Keep a value from now on; the oldest goes when there are too many."""
        with self._lock:
            self._kept[key] = (self._clock() + self._seconds, value)
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        """Keep it no longer."""
        with self._lock:
            self._kept.pop(key, None)
