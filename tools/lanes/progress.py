"""Progress of a program that runs for minutes: one line at a time, which `Runner` shows too."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

EVERY_SECONDS: Final = 30.0
"""Between two lines where the output is no terminal."""
LINE: Final = re.compile(rb"^\[ *(\d+%)\] (.+)$", re.MULTILINE)
"""A line of progress. pytest writes its own share at the end of a line, not at the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a program is.

    Attributes:
        share: of its work that is done, from 0 to 1.
        text: what was done, with its total.
        left: seconds to its end at most; None if they are not known yet.
    """

    share: float
    text: str
    left: float | None = None

    @property
    def line(self) -> str:
        """Such as ``[ 43%] 344 of 800 plans, 9:20 left``."""
        left = "" if self.left is None else f", {clock(max(0.0, self.left))} left"
        return f"[{min(100, int(100 * self.share)):3}%] {self.text}{left}"


def remaining(share: float, elapsed: float) -> float | None:
    """Return the seconds left of work that goes on as fast as so far; None at its beginning."""
    return elapsed * (1 - share) / share if share > 0 else None


@contextmanager
def shown(
    state: Callable[[], State],
    *,
    show: Callable[[str], None] = lambda line: print(line, flush=True),
    every: float = EVERY_SECONDS,
) -> Iterator[None]:
    """Show the state's line at the beginning and then so often, also while the program waits.

    Args:
        state: called in a thread of its own.
        show: prints a line.
        every: seconds between two lines.
    """
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            show(state().line)
            over.wait(every)

    thread = threading.Thread(target=work, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def clock(seconds: float) -> str:
    """Minutes and seconds, such as 3:07."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
