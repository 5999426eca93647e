"""How long to wait before trying again."""

from __future__ import annotations

from random import Random


class Backoff:
    """Doubling delays with jitter: from half to the whole of minimum * 2^n, at most `maximum`.

    Jitter keeps many clients from coming back to a recovered server in step.

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
        """The next delay in seconds; never below what the server asked for (`at_least`)."""
        whole = self._next
        self._next = min(self._maximum, whole * 2)
        return max(self._rng.uniform(whole / 2, whole), at_least or 0.0)

    def reset(self) -> None:
        """Begin with `minimum` again: it went well."""
        self._next = self._minimum
