"""The time limit of a whole request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from di_server.problems import Busy, OutOfBounds

REQUEST_SECONDS: Final = 10.0
COORDINATION_SECONDS: Final = 30.0
"""Seconds for requests of coordinators, whose clients would rather wait than be refused."""

LONGEST_WAIT: Final = 20.0
"""Maximum seconds that a client can wait for news; less than the time for requests at shutdown."""

Clock = Callable[[], float]
"""Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time limit that the handler passes to every call that can block."""

    clock: Clock
    at: float
    longest_call: float
    """Maximum seconds of a single API call: half of the total, so that one lost response leaves
    time for a retry or an error.
    """

    @classmethod
    def after(cls, clock: Clock, seconds: float = REQUEST_SECONDS) -> Deadline:
        """Return a deadline `seconds` from now."""
        return cls(clock, clock() + seconds, seconds / 2)

    def left(self) -> float:
        """Return the remaining seconds, negative if it has passed."""
        return self.at - self.clock()

    def remaining(self) -> float:
        """Return the remaining seconds, more than 0.

        Raises:
            Busy: the deadline has passed.
        """
        seconds = self.left()
        if seconds <= 0:
            raise Busy("the request took too long, try again", retry_after=1)
        return seconds

    def for_call(self) -> float:
        """Return the timeout of the next API call, in seconds.

        Raises:
            Busy: no time is left for it.
        """
        return min(self.remaining(), self.longest_call)


def check_wait(seconds: float) -> None:
    """Refuse to wait for longer than LONGEST_WAIT.

    Raises:
        OutOfBounds: the wait is too long.
    """
    if seconds > LONGEST_WAIT:
        raise OutOfBounds(f"wait must be between 0 and {LONGEST_WAIT:.0f} seconds")
