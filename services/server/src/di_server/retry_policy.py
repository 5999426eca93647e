"""Retries of calls while the API server is unreachable or overloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

from di_kube.backoff import Backoff
from di_kube.errors import Throttled, Unavailable
from di_server.deadline import Deadline
from di_server.problems import OverBudget

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_AWAY: Final = (Unavailable, Throttled)

T = TypeVar("T")


class RetryPolicy:
    """For clients that wait without a timeout, and stop at the first refusal.

    DI-engine's clients are like that: they set no timeout, and the thread that gets a status of 400
    or more ends, and with it the training.

    Args:
        max_waiting: maximum number of waiting requests. Each holds a thread, and some must stay
            free for requests that need no API server: lists from the cache, and the liveness probe.
        retry_on: errors of an attempt after which it is retried.
    """

    def __init__(
        self,
        *,
        max_waiting: int,
        rng: Random,
        sleep: Callable[[float], None],
        retry_on: tuple[type[Unavailable | Throttled | OverBudget], ...] = _AWAY,
    ) -> None:
        self._waiting = threading.Semaphore(max_waiting)
        self._retry_on = retry_on
        self._rng = rng
        self._sleep = sleep

    def run(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Call `attempt` until the API server responds; it must be safe to repeat.

        Raises:
            one of `retry_on`: the deadline leaves no time for another attempt, or too many requests
                wait.
        """
        backoff = Backoff(minimum=_FIRST_PAUSE, maximum=_LONGEST_PAUSE, rng=self._rng)
        is_waiting = False
        try:
            while True:
                try:
                    return attempt()
                except self._retry_on as error:
                    wait = backoff.delay(at_least=error.retry_after)
                    is_waiting = is_waiting or self._waiting.acquire(blocking=False)
                    if not is_waiting or deadline.left() <= wait:
                        raise
                self._sleep(wait)
        finally:
            if is_waiting:
                self._waiting.release()
