"""A response that waits for news."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deferred:
    """A handler's result instead of data while there is no news."""

    data: object
    """The data for a timeout."""
    seconds: float
    subscribe: Callable[[Callable[[object], None]], Callable[[], None]]
    """Registers a function for the next data; returns a function that cancels it. Neither may
    block, and both can be called from any thread.
    """
