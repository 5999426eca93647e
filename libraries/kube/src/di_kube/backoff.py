"""Delays between retries."""

from __future__ import annotations

from random import Random


class Backoff:
    """Exponential backoff with jitter: half to the whole of minimum * 2^n, at most `maximum`.

    Jitter keeps many clients from retrying in step after an outage.

    Args:
        minimum, maximum: seconds.
        rng: source of the jitter.
    """

    def __init__(self, *, minimum: float, maximum: float, rng: Random) -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._rng = rng
        self._next = minimum

    def delay(self, *, at_least: float | None = None) -> float:
        """Return the next delay in seconds, at least what the server requested (`at_least`)."""
        whole = self._next
        self._next = min(self._maximum, whole * 2)
        return max(self._rng.uniform(whole / 2, whole), at_least or 0.0)

    def reset(self) -> None:
        """Start again with `minimum`, after a success."""
        self._next = self._minimum
