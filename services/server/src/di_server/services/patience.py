"""Outlasting an API server that is away or overloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

from di_api.kube.errors import Throttled, Unavailable
from di_server.deadline import Deadline
from di_server.services.budget import OverBudget

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_AWAY: Final = (Unavailable, Throttled)

T = TypeVar("T")


class Patience:
    """For clients who wait as long as it takes, and give up for good at the first refusal.

    DI-engine's are of that kind: they set no time-out, and the thread that meets a status of 400
    or more ends, and with it the training.

    Args:
        places: how many may wait at once. Each holds a thread, and some must be left for those who
            need no API server: lists from memory, and the probe of liveness.
        outlasts: what an attempt may raise and be made again.
    """

    def __init__(
        self,
        *,
        places: int,
        rng: Random,
        sleep: Callable[[float], None],
        outlasts: tuple[type[Unavailable | Throttled | OverBudget], ...] = _AWAY,
    ) -> None:
        self._places = threading.Semaphore(places)
        self._outlasts = outlasts
        self._rng = rng
        self._sleep = sleep

    def run(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Call `attempt` until the API server answers; it must bear being called again.

        Raises:
            one of `outlasts`: the deadline leaves no time for another attempt, or all places
                are taken.
        """
        pause, has_place = _FIRST_PAUSE, False
        try:
            while True:
                try:
                    return attempt()
                except self._outlasts as error:
                    wait = max(error.retry_after or 0.0, self._rng.uniform(pause / 2, pause))
                    has_place = has_place or self._places.acquire(blocking=False)
                    if not has_place or deadline.left() <= wait:
                        raise
                self._sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            if has_place:
                self._places.release()
