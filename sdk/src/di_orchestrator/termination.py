"""Detection of SIGTERM, and the run time of the program."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_START_TICKS = 19
"""Index of `starttime` in /proc/<pid>/stat, counted after the name of the program (proc(5))."""

LOOK_SECONDS = 0.5
"""Maximum seconds until a waiting thread notices a signal."""


class _Heard(threading.Event):
    """An event set by a signal, whose `wait` in the main thread notices every signal.

    Python calls a signal's handler in the main thread, between two bytecodes. A signal that arrives
    right before the wait for a lock begins, or in another thread, does not end that wait.
    """

    def wait(self, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK_SECONDS if until is None else until - time.monotonic()
            if super().wait(min(max(left, 0.0), LOOK_SECONDS)):
                return True
            if until is not None and time.monotonic() >= until:
                return False


class Leaving:
    """Records whether SIGTERM has arrived; a previous handler is called too."""

    def __init__(self, on_asked: Callable[[], None]) -> None:
        self.is_asked = False
        self.event: threading.Event = _Heard()
        self._on_asked = on_asked
        self._before: Any = None
        self._listens = False

    def listen(self) -> None:
        """Install the handler; has no effect outside of the main thread, which alone can do it."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._heard)
            self._listens = True

    def restore(self) -> None:
        """Restore the previous handler of SIGTERM."""
        if self._listens:
            # A handler that was not set from Python is reported as None, and cannot be set from
            # there.
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)
            self._listens = False

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.is_asked = True
        self._on_asked()
        # Not in the handler: the main thread may hold the event's lock, and waits for this handler.
        threading.Thread(target=self.event.set, daemon=True, name="di-leaving").start()
        if callable(self._before):
            self._before(number, frame)


def seconds_since_start() -> float:
    """Return the seconds since this process began; if unknown (not Linux), its CPU time."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began = int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 0.0)
    except (OSError, AttributeError, LookupError, ValueError):
        return time.process_time()
