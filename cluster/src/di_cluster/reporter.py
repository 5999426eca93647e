"""Progress for a person: each step with the time it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


class Reporter:
    """Prints one line for each finished step, with seconds since the start."""

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._start = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the reporter was made."""
        return self._clock() - self._start

    def say(self, text: str) -> None:
        print(f"[{self.elapsed:6.1f} s] {text}", file=self._stream, flush=True)

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


class Silent(Reporter):
    """Reports nothing; for callers that only want the result."""

    def say(self, text: str) -> None:
        del text
