"""How many calls to the API server all unknown callers together may cause."""

from __future__ import annotations

from di_server.deadline import Clock
from di_server.problems import OverBudget
from di_service.token_buckets import TokenBuckets


class Budget:
    """`rate` calls a second, and those of two seconds at once; per server process."""

    def __init__(self, *, rate: float, clock: Clock) -> None:
        self._bucket = TokenBuckets[None](rate=rate, burst=max(1.0, 2 * rate), clock=clock)

    def take(self) -> None:
        """Count one call.

        Raises:
            OverBudget: there are none left at present.
        """
        wait = self._bucket.take(None)
        if wait:
            raise OverBudget(retry_after=wait)
