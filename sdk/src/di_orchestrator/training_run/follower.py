"""A process of a group other than the first, whose decisions it takes over."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections import deque
from collections.abc import Callable

from di_orchestrator.pods.proof import proof
from di_orchestrator.server.exchange import Clock
from di_orchestrator.training_run.agreement import (
    ASKS,
    COMPLETE,
    DUE,
    FAILED,
    JOINED,
    LEAVE_SECONDS,
    LEAVES,
    OPENED,
    OVER,
    STOP,
    WRITTEN,
    Leave,
    Lines,
)
from di_orchestrator.training_run.place import Place
from di_orchestrator.warnings_once import Warnings

log = logging.getLogger("di_orchestrator")

JOIN_SECONDS = 600.0
"""Seconds for which the first process may be starting."""
LOST_SECONDS = 10.0
"""Seconds for which the first process may be unreachable after its connection broke."""
SLOW_SECONDS = 60.0
"""Seconds after which a process that waits for a decision says so."""
CONNECT_SECONDS = 2.0
_STEP_SECONDS = 0.5
_RETRY_SECONDS = 0.2
_SHARDS = "shards"


class Follower:
    """Takes over the decisions of the first process; for one thread.

    If the first process ends, or cannot be reached, it decides for itself: a training never fails
    because of its reports. It does not wait for a successor of a first process that was killed:
    that one begins a new loop, and the collectives of the program fail without the process.

    Args:
        place: of this process in the group.
        secret: of the job; None outside a job.
        leaves: returns whether this pod has to leave.
    """

    def __init__(
        self,
        place: Place,
        secret: bytes | None,
        leaves: Callable[[], bool],
        *,
        clock: Clock = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._place = place
        self._secret = secret
        self._leaves = leaves
        self._clock = clock
        self._pause = pause
        self._leave = Leave(clock)
        self._came: dict[str, deque[str]] = {DUE: deque(), STOP: deque(), _SHARDS: deque()}
        self._sock: socket.socket | None = None
        self._lines = Lines()
        self._told: set[str] = set()
        self._lost_at = clock()
        self._has_joined = False
        self._is_alone = False
        self._warnings = Warnings()

    # ------------------------------------------------------------ decisions
    def is_due(self, own: bool) -> bool:
        """Return whether all save now; `own` is what this process would do alone."""
        if own:
            self._ask()
        found = self._next(DUE, "checkpoint.is_due")
        is_due = own if found is None else found == f"{DUE}1"
        self._leave.decided(is_due)
        if is_due:
            self._told.discard(ASKS)
        return is_due

    def stops(self) -> bool:
        """Return whether all stop now; in an elastic group, whether this process does."""
        if self._leaves():
            self._ask()
        if self._place.is_elastic:
            return self._leave.is_over
        found = self._next(STOP, "stopping")
        return self._leaves() if found is None else found == f"{STOP}1"

    def _ask(self) -> None:
        line = LEAVES if self._leaves() else ASKS
        if line == LEAVES:
            self._leave.asked()
        if line not in self._told:
            self._told.add(line)
            self._tell(line)

    # ------------------------------------------------------------ sharded checkpoints
    def opened(self) -> int | None:
        """Wait until the first process has begun a sharded checkpoint; return its step.

        None: there is no first process.
        """
        while (found := self._next(_SHARDS, "save")) is not None:
            if found[0] == OPENED:
                return int(found[1:])
        return None

    def is_complete(self, step: int) -> bool:
        """Wait until the first process has completed a sharded checkpoint, or removed it."""
        while (found := self._next(_SHARDS, "save")) is not None:
            if found[1:] == str(step) and found[0] in (COMPLETE, FAILED):
                return found[0] == COMPLETE
        return False

    def wrote(self, *, is_complete: bool) -> None:
        """Report that this process has written its part of a checkpoint, or cannot."""
        self._tell(WRITTEN if is_complete else FAILED)

    def _tell(self, line: str) -> None:
        while self._sock is None and not self._is_alone:
            self._connect()
        if self._sock is not None:
            # What was received before the connection broke is still to be read.
            with contextlib.suppress(OSError):
                self._sock.sendall(f"{line}\n".encode())

    # ------------------------------------------------------------ the connection
    def close(self) -> None:
        """End the connection."""
        self._is_alone = True
        if self._sock is not None:
            self._sock.close()

    def _next(self, question: str, name: str) -> str | None:
        """Return the next line about a question; None: this process decides for itself."""
        began = self._clock()
        while not self._came[question]:
            if self._is_alone:
                return None
            if self._sock is None:
                self._connect()
            elif not self._receive():
                self._judge_wait(self._clock() - began, name)
        return self._came[question].popleft()

    def _judge_wait(self, waited: float, name: str) -> None:
        if self._leaves() and waited >= LEAVE_SECONDS:
            self._go_alone(f"the first process has not read {name} since this pod has to leave")
        elif waited >= SLOW_SECONDS:
            self._warnings.say(
                f"rank {self._place.rank} waits for rank 0 to read {name}: all processes of a "
                "group read it at the same places of their loops"
            )

    def _connect(self) -> None:
        place = self._place
        try:
            sock = socket.create_connection((place.host, place.port), CONNECT_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.settimeout(_STEP_SECONDS)
            shown = ""
            if self._secret is not None:
                now = time.time()
                shown = proof(self._secret, "GROUP", f"/{place.rank}", b"", now=now)
            sock.sendall(f"{place.rank} {shown}\n".encode())
        except OSError as error:
            if self._clock() - self._lost_at >= self._patience(error):
                self._go_alone(f"{place.host}:{place.port} does not answer: {error}")
            else:
                self._pause(_RETRY_SECONDS)
        else:
            self._sock, self._lines = sock, Lines()
            self._told.clear()

    def _patience(self, error: OSError) -> float:
        """Return the seconds for which to try again after this error."""
        if self._has_joined and isinstance(error, ConnectionRefusedError):
            return 0.0  # its host answers, and it does not run
        if self._leaves():
            return LEAVE_SECONDS
        return LOST_SECONDS if self._has_joined else JOIN_SECONDS

    def _receive(self) -> bool:
        """Return whether anything came."""
        assert self._sock is not None
        try:
            received = self._sock.recv(65536)
        except socket.timeout:
            return False
        except OSError:
            received = b""
        for line in self._lines.of(received):
            kind = line[:1]
            if kind == OVER:
                self._is_alone = True
            elif kind == JOINED:
                self._has_joined = True
            elif kind in (DUE, STOP):
                self._came[kind].append(line)
            else:
                self._came[_SHARDS].append(line)
        if not received:
            self._lose()
        return True

    def _lose(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._sock, self._lost_at = None, self._clock()
        # Decisions of the lost process are for its loop, which begins again.
        for lines in self._came.values():
            lines.clear()

    def _go_alone(self, why: str) -> None:
        self._is_alone = True
        log.warning("rank %s decides for itself when to save and stop: %s", self._place.rank, why)
