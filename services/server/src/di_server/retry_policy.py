"""When a call is made again because the API server is away or overloaded."""

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
    """For clients who wait as long as it takes, and give up for good at the first refusal.

    DI-engine's are of that kind: they set no time-out, and the thread that meets a status of 400
    or more ends, and with it the training.

    Args:
        max_waiting: how many may wait at once. Each holds a thread, and some must be left for
            those who need no API server: lists from the cache, and the probe of liveness.
        retry_on: what an attempt may raise and be made again.
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
        """Call `attempt` until the API server answers; it must bear being called again.

        Raises:
            one of `retry_on`: the deadline leaves no time for another attempt, or too many wait
                already.
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
