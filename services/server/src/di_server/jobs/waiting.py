"""Requests that wait for something to change, each of which holds a thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from di_server.deadline import Clock
from di_server.model.references import JobRef

INTERVAL: Final = 0.25
"""Seconds between two looks at the cache."""

T = TypeVar("T")


class Waiting:
    """Places for requests that wait; half of them at most for one job.

    Who finds none is answered at once, as one whose time is up; so are all when the process ends,
    which would wait for their threads.
    """

    def __init__(
        self,
        *,
        places: int,
        is_ending: Callable[[], bool],
        clock: Clock,
        sleep: Callable[[float], None],
    ) -> None:
        """`places` are one or more."""
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
        """What `look` sees, once it is news or `seconds` have passed; None if it sees nothing."""
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
