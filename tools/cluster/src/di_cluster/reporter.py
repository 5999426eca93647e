"""Progress for a person: each step with the time it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Reporter:
    """Prints one line for each finished step, with seconds since the start.

    Args:
        stream: where to print; None reports nothing.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self, stream: Stream | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock()

    def say(self, text: str) -> None:
        if self._stream is not None:
            elapsed = self._clock() - self._start
            # In one write: work that goes on side by side says lines, and no parts of them.
            self._stream.write(f"[{elapsed:6.1f} s] {text}\n")
            self._stream.flush()

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Report the enclosed work when it is done; a failure is reported as such."""
        before = self._clock()
        try:
            yield
        except BaseException:
            self.say(f"{text}: failed after {self._clock() - before:.1f} s")
            raise
        self.say(f"{text} ({self._clock() - before:.1f} s)")
