"""The processor time that one review may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

MAX_SECONDS: Final = 1.0
"""Of processor time of the thread that judges. Bytes and values are bounded before, so that the
worst review takes a third of it; this holds if a rule costs more than it should."""


class Exhausted(Exception):
    """A review took all of its time."""


class Budget:
    """Seconds for one review, from its making on."""

    def __init__(
        self, *, seconds: float = MAX_SECONDS, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def check(self) -> None:
        """Raises Exhausted if no time is left."""
        if self._clock() >= self._end:
            raise Exhausted
