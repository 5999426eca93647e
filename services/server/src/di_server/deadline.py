"""How long one request may take in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from di_server.problems import Busy

REQUEST_SECONDS: Final = 10.0
_CALL_SECONDS: Final = 5.0
"""The longest single API call, so that one lost answer leaves time to say so."""

Clock = Callable[[], float]
"""Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment handed down from the handler to every call that may block."""

    clock: Clock
    at: float

    @classmethod
    def after(cls, clock: Clock, seconds: float = REQUEST_SECONDS) -> Deadline:
        """A deadline `seconds` from now."""
        return cls(clock, clock() + seconds)

    def remaining(self) -> float:
        """Seconds left, more than 0.

        Raises:
            Busy: none are left.
        """
        seconds = self.at - self.clock()
        if seconds <= 0:
            raise Busy("the request took too long, try again", retry_after=1)
        return seconds

    def for_call(self) -> float:
        """Time-out of the next API call, in seconds.

        Raises:
            Busy: no time is left for it.
        """
        return min(self.remaining(), _CALL_SECONDS)
