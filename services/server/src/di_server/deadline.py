"""How long one request may take in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from di_server.problems import Busy, OutOfBounds

REQUEST_SECONDS: Final = 10.0
COORDINATION_SECONDS: Final = 30.0
"""For requests of coordinators, whose clients would rather wait than be refused."""

LONGEST_WAIT: Final = 20.0
"""Seconds that a client may wait for news; less than a server that ends leaves its requests."""

Clock = Callable[[], float]
"""Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment handed down from the handler to every call that may block."""

    clock: Clock
    at: float
    longest_call: float
    """Seconds of a single API call: half of all, so that one lost answer leaves time to ask again
    or to say so."""

    @classmethod
    def after(cls, clock: Clock, seconds: float = REQUEST_SECONDS) -> Deadline:
        """A deadline `seconds` from now."""
        return cls(clock, clock() + seconds, seconds / 2)

    def left(self) -> float:
        """Seconds left, less than 0 when it has passed."""
        return self.at - self.clock()

    def remaining(self) -> float:
        """Seconds left, more than 0.

        Raises:
            Busy: none are left.
        """
        seconds = self.left()
        if seconds <= 0:
            raise Busy("the request took too long, try again", retry_after=1)
        return seconds

    def for_call(self) -> float:
        """Time-out of the next API call, in seconds.

        Raises:
            Busy: no time is left for it.
        """
        return min(self.remaining(), self.longest_call)


def check_wait(seconds: float) -> None:
    """Refuse to wait for longer than LONGEST_WAIT.

    Raises:
        OutOfBounds: saying so.
    """
    if seconds > LONGEST_WAIT:
        raise OutOfBounds(f"wait must be between 0 and {LONGEST_WAIT:.0f} seconds")
