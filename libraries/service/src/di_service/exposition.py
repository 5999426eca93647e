"""Metrics as text, rendered at most once a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

EXPOSITION_SECONDS: Final = 1.0


class Exposition:
    """Caches the result of `render` for a second; one thread renders while others get the last
    result.

    Anyone can request metrics without a token, and rendering reads all counters. Only the very
    first request has to wait.
    """

    def __init__(self, render: Callable[[], bytes], *, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._render = render
        self._clock = clock
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._made_at = 0.0

    def __call__(self) -> bytes:
        """Return the text, at most `EXPOSITION_SECONDS` and one rendering old; raises the errors of
        `render`.
        """
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
