"""Common limit on the API calls that unknown callers cause."""

from __future__ import annotations

from di_server.deadline import Clock
from di_server.problems import OverBudget
from di_service.token_buckets import TokenBuckets


class Budget:
    """A limit of `rate` calls a second with a burst of two seconds; per server process."""

    def __init__(self, *, rate: float, clock: Clock) -> None:
        self._bucket = TokenBuckets[None](rate=rate, burst=max(1.0, 2 * rate), clock=clock)

    def take(self) -> None:
        """Count one call.

        Raises:
            OverBudget: the limit is reached.
        """
        wait = self._bucket.take(None)
        if wait:
            raise OverBudget(retry_after=wait)
