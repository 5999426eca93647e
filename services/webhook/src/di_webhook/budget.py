"""Limit on the CPU time of one review."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

MAX_SECONDS: Final = 1.0
"""CPU seconds of the thread that judges. Bytes and values are limited before, so that the worst
review takes a third of it; the limit covers a rule that costs more than it should.
"""


class Exhausted(Exception):
    """A review used up its time."""


class Budget:
    """CPU time of one review, counted from the creation of this object."""

    def __init__(
        self, *, seconds: float = MAX_SECONDS, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def check(self) -> None:
        """Raise Exhausted if no time is left."""
        if self._clock() >= self._end:
            raise Exhausted
