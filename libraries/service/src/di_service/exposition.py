"""Metrics as text, made seldom however many ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

EXPOSITION_SECONDS: Final = 1.0


class Exposition:
    """Keeps what `render` makes for a second; one thread makes it while others get the last one.

    Anybody may ask for metrics without a token, and making them walks over all that is counted.
    Only the very first has to be waited for.
    """

    def __init__(self, render: Callable[[], bytes], *, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._render = render
        self._clock = clock
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._made_at = 0.0

    def __call__(self) -> bytes:
        """The text, at most `EXPOSITION_SECONDS` and one rendering old; raises what that raises."""
        last = self._text
        if not self._lock.acquire(blocking=last is None):
            assert last is not None
            return last
        try:
            now = self._clock()
            if self._text is None or now - self._made_at >= EXPOSITION_SECONDS:
                self._text = self._render()
                self._made_at = self._clock()
            return self._text
        finally:
            self._lock.release()
