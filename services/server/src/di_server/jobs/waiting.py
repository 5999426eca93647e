"""Long polling: requests that wait for a change and hold a thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from di_server.deadline import Clock
from di_server.model.references import JobRef

INTERVAL: Final = 0.25
"""Seconds between two reads of the cache."""

T = TypeVar("T")


class Waiting:
    """Slots for requests that wait, at most half of them for one job.

    A request without a slot is answered at once, as after a timeout. All are answered when the
    process shuts down, which would wait for their threads.
    """

    def __init__(
        self,
        *,
        places: int,
        is_ending: Callable[[], bool],
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        """`places` is the number of slots, at least one."""
        self._free = places
        self._of_a_job = max(1, places // 2)
        self._taken: Counter[JobRef] = Counter()
        self._lock = threading.Lock()
        self._is_ending = is_ending
        self._clock = clock
        self._sleep = sleep

    def until(
        self,
        ref: JobRef,
        look: Callable[[], T | None],
        is_news: Callable[[T], bool],
        seconds: float,
    ) -> T | None:
        """Return the result of `look`, once it is news or `seconds` have passed; None if there is
        none.
        """
        found = look()
        end = self._clock() + seconds
        with self._place(ref) as has_place:
            while has_place and found is not None and not is_news(found):
                left = end - self._clock()
                if left <= 0 or self._is_ending():
                    break
                self._sleep(min(INTERVAL, left))
                found = look()
        return found

    @contextmanager
    def _place(self, ref: JobRef) -> Iterator[bool]:
        with self._lock:
            has_place = self._free > 0 and self._taken[ref] < self._of_a_job
            if has_place:
                self._free -= 1
                self._taken[ref] += 1
        try:
            yield has_place
        finally:
            if has_place:
                with self._lock:
                    self._free += 1
                    self._taken[ref] -= 1
                    if not self._taken[ref]:
                        del self._taken[ref]
