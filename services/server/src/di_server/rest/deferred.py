"""An answer that waits for news."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deferred:
    """What a handler returns in place of data when there is nothing new yet."""

    data: object
    """What is answered if nothing comes."""
    seconds: float
    subscribe: Callable[[Callable[[object], None]], Callable[[], None]]
    """Has the function called with other data once there is news; returns how to end that. Neither
    may block, and both may be called from any thread."""
