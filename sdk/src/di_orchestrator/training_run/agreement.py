"""Questions on which the processes of a group agree, and the lines that they exchange.

The first process answers each question for all: the n-th time that it reads `checkpoint.is_due`
decides the n-th reading of every other process, and likewise `stopping`. So all of them save, or
stop, at the same place of their loops. Decisions are sent over one connection per process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from di_orchestrator.server.exchange import Clock

DUE = "d"
STOP = "s"
"""The questions: is a checkpoint due, and does the group stop?"""
OPENED = "o"
WRITTEN = "w"
COMPLETE = "c"
FAILED = "f"
"""A checkpoint of which each process writes a part: it was begun, a process has written its part,
it is complete, or failed.
"""
ASKS = "a"
LEAVES = "l"
"""A process requests a checkpoint, or has to leave."""
JOINED = "j"
"""The first process gets to know a process, and sends it all decisions from the first one on. It
does not send this line to a process that was started again: that one is in a later loop.
"""
OVER = "e"
"""The first process has ended its training."""
LEAVE_SECONDS = 10.0
"""Seconds after SIGTERM for which a process waits for the others; pods have 30 by default."""
MOST_LINE = 1024
"""Maximum bytes of a line."""


@dataclass
class Leave:
    """Decides when a process that has to leave may stop: after a checkpoint, if it saves any. Pure.

    Attributes:
        saves: whether the program asks if checkpoints are due.
    """

    clock: Clock = time.monotonic
    saves: bool = field(default=False, init=False)
    _since: float | None = field(default=None, init=False)
    _has_saved: bool = field(default=False, init=False)

    def asked(self) -> None:
        """Note that a process has to leave."""
        if self._since is None:
            self._since, self._has_saved = self.clock(), False

    def decided(self, is_due: bool) -> None:
        """Note a decision about a checkpoint."""
        self.saves = True
        self._has_saved = self._has_saved or (is_due and self._since is not None)

    @property
    def is_over(self) -> bool:
        """Return whether to stop now."""
        if self._since is None:
            return False
        waited = self.clock() - self._since
        return not self.saves or self._has_saved or waited >= LEAVE_SECONDS


class Lines:
    """Splits the bytes of a connection into lines.

    Raises:
        ValueError: a line is too long.
    """

    def __init__(self) -> None:
        self._rest = b""

    def of(self, received: bytes) -> list[str]:
        """Return the lines that are complete with these bytes."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > MOST_LINE:
            raise ValueError(f"a line has at most {MOST_LINE} bytes")
        return [line.decode(errors="replace") for line in lines]
