"""Waiting for a state with a deadline, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

from di_cluster.errors import TimedOut


def wait_until(
    predicate: Callable[[], bool],
    *,
    seconds: float,
    what: str,
    every: float = 0.05,
    tolerate: tuple[type[BaseException], ...] = (),
) -> None:
    """Poll until `predicate` is true.

    Args:
        predicate: asked every `every` seconds, at least once.
        seconds: the time limit.
        what: the state waited for, in words, for the error message.
        every: seconds between two questions.
        tolerate: exceptions of the predicate that mean "not yet".

    Raises:
        TimedOut: the state did not come in time; names the last tolerated exception.
    """
    deadline = time.monotonic() + seconds
    last: BaseException | None = None
    while True:
        try:
            if predicate():
                return
        except tolerate as error:
            last = error
        if time.monotonic() >= deadline:
            detail = f": {last}" if last is not None else ""
            raise TimedOut(f"waited {seconds:g} s for {what}{detail}") from last
        time.sleep(every)
