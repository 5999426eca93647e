"""One call for all who ask the same at the same time, and its answer for those who ask soon."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from di_server.deadline import Clock, Deadline
from di_server.problems import Busy

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Of calls with equal keys one is under way; who comes meanwhile gets its answer or error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[K, Future[V]] = {}

    def run(self, key: K, call: Callable[[], V], deadline: Deadline) -> V:
        """Call, or wait for the call of another thread.

        Raises:
            Busy: the deadline has passed while another thread called; else what the call raises.
        """
        with self._lock:
            flying = self._flying.get(key)
            mine: Future[V] = Future()
            if flying is None:
                self._flying[key] = mine
        if flying is not None:
            try:
                return flying.result(deadline.remaining())
            except TimeoutError as error:
                raise Busy("the request took too long, try again", retry_after=1) from error
        try:
            answer = call()
        except BaseException as error:
            self._land(key)
            mine.set_exception(error)
            raise
        self._land(key)
        mine.set_result(answer)
        return answer

    def _land(self, key: K) -> None:
        with self._lock:
            del self._flying[key]


class Recent(Generic[K, V]):
    """Answers by key, good for some seconds; the one longest unused goes when there are too many.

    Args:
        seconds: how long an answer is good.
        most: how many are kept, old ones too.
    """

    def __init__(self, *, seconds: float, most: int, clock: Clock) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The answer, None if there is none that is good."""
        with self._lock:
            until, value = self._kept.get(key, (0.0, None))
            if value is not None:
                self._kept.move_to_end(key)
        return value if until > self._clock() else None

    def had(self, key: K) -> bool:
        """Whether there is an answer, however old."""
        with self._lock:
            return key in self._kept

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._kept[key] = (self._clock() + self._seconds, value)
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        with self._lock:
            self._kept.pop(key, None)
