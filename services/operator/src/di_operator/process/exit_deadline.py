"""A deadline for the shutdown of the process, whatever its threads and tasks wait for."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

import structlog

log = structlog.get_logger(__name__)

SECONDS: Final = 25.0
"""Counted from the beginning of the shutdown. Kubernetes sends SIGKILL 30 s after SIGTERM."""
EXIT_CODE: Final = 1
_REPORT_SECONDS: Final = 1.0


def exit_at_once(code: int) -> NoReturn:
    """End the process at once, with all output written.

    The interpreter's own shutdown first frees every object, which takes 0.6 to 0.9 s of CPU time:
    12 s and more on a busy machine. No ExitDeadline limits that time.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class ExitDeadline:
    """Exits the process if its orderly shutdown takes longer than `seconds`.

    It is a separate thread, so neither a blocked event loop nor the executor's threads, which the
    interpreter waits for without a limit, can delay it. Its log line has one second: the thread
    that hangs may hold the log's lock, or wait for a reader of standard output.
    """

    def __init__(
        self, *, seconds: float = SECONDS, exit_process: Callable[[int], object] = os._exit
    ) -> None:
        self._exit_process = exit_process
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._seconds = seconds

    def start(self) -> None:
        """Start the countdown; later calls change nothing."""
        if self._timer.ident is None:
            self._timer.start()

    def _end(self) -> None:
        try:
            report = threading.Thread(target=self._report, daemon=True)
            report.start()
            report.join(_REPORT_SECONDS)
        finally:
            self._exit_process(EXIT_CODE)

    def _report(self) -> None:
        # The stacks are written while the interpreter's lock is held: a write that blocks would
        # keep it.
        os.set_blocking(sys.stderr.fileno(), False)
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
        log.error("the process did not end in time", seconds=self._seconds, exit_code=EXIT_CODE)
