"""Deduplication of concurrent equal calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from di_server.deadline import Deadline
from di_server.problems import Busy

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Runs one of several concurrent calls with equal keys; the others get its result or error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[K, Future[V]] = {}

    def run(self, key: K, call: Callable[[], V], deadline: Deadline) -> V:
        """Call, or wait for the call of another thread.

        Raises:
            Busy: the deadline passed while another thread called; other errors are those of the
                call.
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
            result = call()
        except BaseException as error:
            self._land(key)
            mine.set_exception(error)
            raise
        self._land(key)
        mine.set_result(result)
        return result

    def _land(self, key: K) -> None:
        with self._lock:
            del self._flying[key]
