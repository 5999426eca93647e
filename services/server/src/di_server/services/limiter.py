"""How many requests one job may send."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from di_server.deadline import Clock
from di_server.decisions.job_id import JobRef
from di_server.problems import TooMany

_MAX_JOBS: Final = 10_000


class Limiter:
    """A token bucket a job: `rate` requests a second, `burst` at once; per server process."""

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        # job: (tokens left, when that was so). The bucket longest unused goes first when there
        # are too many; it is full again by then in all but a flood.
        self._buckets: OrderedDict[JobRef, tuple[float, float]] = OrderedDict()

    def take(self, ref: JobRef) -> None:
        """Count one request.

        Raises:
            TooMany: the bucket is empty.
        """
        with self._lock:
            now = self._clock()
            tokens, since = self._buckets.pop(ref, (float(self._burst), now))
            tokens = min(float(self._burst), tokens + (now - since) * self._rate)
            granted = tokens >= 1
            self._buckets[ref] = (tokens - granted, now)
            if len(self._buckets) > _MAX_JOBS:
                self._buckets.popitem(last=False)
        if not granted:
            raise TooMany(
                f"{ref.id} may send {self._rate:g} requests a second",
                retry_after=(1 - tokens) / self._rate,
            )
