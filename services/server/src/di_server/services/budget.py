"""How many calls to the API server all strangers together may cause."""

from __future__ import annotations

from di_server.deadline import Clock
from di_server.problems import Busy
from di_server.services.buckets import Buckets


class OverBudget(Busy):
    """Too many strangers ask at once; it says nothing about this one.

    Attributes:
        retry_after: seconds until there is a share.
    """

    def __init__(self, *, retry_after: float) -> None:
        super().__init__(
            "too many callers ask at once whom this server does not know yet, try again",
            retry_after=retry_after,
        )
        self.retry_after = retry_after


class Budget:
    """`rate` calls a second, and those of two seconds at once; per server process."""

    def __init__(self, *, rate: float, clock: Clock) -> None:
        self._bucket = Buckets[None](rate=rate, burst=max(1.0, 2 * rate), clock=clock)

    def take(self) -> None:
        """Count one call.

        Raises:
            OverBudget: there are none left at present.
        """
        wait = self._bucket.take(None)
        if wait:
            raise OverBudget(retry_after=wait)
