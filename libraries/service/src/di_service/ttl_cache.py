"""A bounded cache with a time to live."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, valid for some seconds; the longest unused one is dropped when there are too
    many.

    Args:
        seconds: how long a value is valid.
        most: number of values, expired ones included.
        clock: monotonic seconds.
    """

    def __init__(self, *, seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value, None if there is no valid one."""
        with self._lock:
            until, value = self._kept.get(key, (0.0, None))
            if value is not None:
                self._kept.move_to_end(key)
        return value if until > self._clock() else None

    def had(self, key: K) -> bool:
        """Return whether there is a value, valid or expired."""
        with self._lock:
            return key in self._kept

    def put(self, key: K, value: V) -> None:
        """Store a value; the longest unused one is dropped when there are too many."""
        with self._lock:
            self._kept[key] = (self._clock() + self._seconds, value)
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        """Remove the value."""
        with self._lock:
            self._kept.pop(key, None)
