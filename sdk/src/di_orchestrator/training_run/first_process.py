"""The first process of a group, which decides for all."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from di_orchestrator.pods.hub import listening
from di_orchestrator.pods.proof import Proof
from di_orchestrator.server.exchange import Clock
from di_orchestrator.training_run.agreement import (
    ASKS,
    COMPLETE,
    DUE,
    FAILED,
    JOINED,
    LEAVES,
    OPENED,
    OVER,
    STOP,
    WRITTEN,
    Leave,
    Lines,
)
from di_orchestrator.training_run.place import Place

log = logging.getLogger("di_orchestrator")

SEND_SECONDS = 10.0
"""Seconds in which a process takes a decision; after that it is on its own."""
JOIN_SECONDS = 600.0
"""Seconds for which a sharded checkpoint waits for a process that has not connected."""
LINGER_SECONDS = 1.0
"""Seconds that the end of the training waits for processes that have not connected."""
MOST_PAST = 100_000
"""Maximum number of decisions that are kept for processes that have not connected."""
MOST_STRANGERS = 64
"""Maximum number of connections without a rank."""


@dataclass
class _Link:
    sock: socket.socket
    rank: int | None = None
    lines: Lines = field(default_factory=Lines)


class FirstProcess:
    """Sends the others each decision.

    The program's thread decides, and another one listens: the program can be waiting for a process
    that has not connected yet.

    Args:
        place: of this process in the group.
        secret: of the job; None outside a job.
        leaves: returns whether this pod has to leave.

    Raises:
        OSError: another program listens on the port of the group.
    """

    def __init__(
        self,
        place: Place,
        secret: bytes | None,
        leaves: Callable[[], bool],
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._place = place
        self._secret = secret
        self._leaves = leaves
        self._clock = clock
        self._changed = threading.Condition()
        self._leave = Leave(clock)
        self._is_asked = False
        self._links: dict[int, _Link] = {}
        self._strangers: list[_Link] = []
        self._joined: set[int] = set()
        self._past: list[str] = []
        self._is_past_lost = False
        self._is_open = False
        self._written: set[int] = set()
        self._failed: set[int] = set()
        self._listener = listening(place.port)
        self._listener.setblocking(False)
        self._woken, self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._listener, self._woken):
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True, name="di-group")
        self._thread.start()

    # ------------------------------------------------------------ decisions
    def is_due(self, own: bool) -> bool:
        """Return whether all save now; `own` is what this process would do alone."""
        with self._changed:
            value, self._is_asked = own or self._is_asked, False
            self._note_leave()
            self._leave.decided(value)
            self._tell(f"{DUE}{value:d}")
        return value

    def stops(self) -> bool:
        """Return whether all stop now; in an elastic group, whether this process does."""
        with self._changed:
            self._note_leave()
            value = self._leave.is_over
            if not self._place.is_elastic:
                self._tell(f"{STOP}{value:d}")
        return value

    def _note_leave(self) -> None:
        if self._leaves():
            self._leave.asked()

    def _tell(self, line: str) -> None:
        """Send a line to all, also to those that connect later."""
        if len(self._joined) == self._place.size - 1:
            self._past.clear()
        elif len(self._past) < MOST_PAST:
            self._past.append(line)
        elif not self._is_past_lost:
            self._is_past_lost = True
            log.warning(
                "ranks %s of the group have not connected after %d decisions, and from now on "
                "decide for themselves: do they use di.training?",
                ", ".join(str(r) for r in range(1, self._place.size) if r not in self._joined),
                MOST_PAST,
            )
        for link in list(self._links.values()):
            self._send(link, line)

    # ------------------------------------------------------------ sharded checkpoints
    def open(self, step: int) -> None:
        """Begin a checkpoint of which each process writes a part."""
        with self._changed:
            self._written, self._failed, self._is_open = set(), set(), True
            self._tell(f"{OPENED}{step}")

    def all_have_written(self) -> bool:
        """Wait until all others have written their part of the checkpoint; False: one cannot."""
        others = set(range(1, self._place.size))
        with self._changed:
            self._changed.wait_for(lambda: others <= self._joined or self._failed, JOIN_SECONDS)
            self._failed |= others - self._joined
            self._changed.wait_for(lambda: others <= self._written or self._failed)
            failed = ", ".join(map(str, sorted(self._failed)))
        if failed:
            log.warning("no checkpoint was saved: ranks %s did not write their part", failed)
        return not failed

    def shut(self, step: int, *, is_complete: bool) -> None:
        """End a checkpoint of which each process writes a part."""
        with self._changed:
            self._is_open = False
            self._tell(f"{COMPLETE if is_complete else FAILED}{step}")

    # ------------------------------------------------------------ connections
    def close(self) -> None:
        """End: from now on the others decide for themselves."""
        with self._changed:
            others = self._place.size - 1
            is_asked = bool(self._past)
            self._tell(OVER)
            if is_asked:
                self._changed.wait_for(lambda: len(self._joined) == others, LINGER_SECONDS)
        self._wake.send(b".")
        self._thread.join()
        for link in (*self._links.values(), *self._strangers):
            link.sock.close()
        for each in (self._listener, self._woken, self._wake):
            each.close()

    def _serve(self) -> None:
        with self._selector:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._woken:
                        return
                    with self._changed:
                        if key.fileobj is self._listener:
                            self._accept()
                        else:
                            self._read(key.data)
                        self._changed.notify_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._strangers) < MOST_STRANGERS:
                sock, _ = self._listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setblocking(False)
                link = _Link(sock)
                self._strangers.append(link)
                self._selector.register(sock, selectors.EVENT_READ, link)
                # A process sends its rank at once.
                self._read(link)
            # A stranger of before makes place for the next one.
            self._drop(self._strangers[0])

    def _read(self, link: _Link) -> None:
        try:
            received = link.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        try:
            for line in link.lines.of(received):
                self._take(link, line)
        except ValueError:
            received = b""
        if not received:
            self._drop(link)

    def _take(self, link: _Link, line: str) -> None:
        if link.rank is None:
            self._join(link, line)
        elif line in (ASKS, LEAVES):
            self._is_asked = True
            if line == LEAVES and not self._place.is_elastic:
                self._leave.asked()
        elif line == WRITTEN:
            self._written.add(link.rank)
        elif line == FAILED:
            self._failed.add(link.rank)

    def _join(self, link: _Link, line: str) -> None:
        text, _, shown = line.partition(" ")
        rank = int(text)
        if not (0 < rank < self._place.size and self._is_proven(rank, shown)):
            raise ValueError("not of this group")
        if (before := self._links.get(rank)) is not None:
            self._drop(before)
        if self._is_past_lost and rank not in self._joined:
            self._send(link, OVER)
            raise ValueError("too late")
        self._strangers.remove(link)
        link.rank, self._links[rank] = rank, link
        # A process that was started again begins with the next decision.
        for each in (JOINED, *self._past) if rank not in self._joined else ():
            self._send(link, each)
        self._joined.add(rank)

    def _is_proven(self, rank: int, shown: str) -> bool:
        if self._secret is None:
            return True
        found = Proof.read(shown)
        target = f"/{rank}"
        return found is not None and found.holds(self._secret, "GROUP", target, now=time.time())

    def _send(self, link: _Link, line: str) -> None:
        try:
            link.sock.settimeout(SEND_SECONDS)
            link.sock.sendall(f"{line}\n".encode())
            link.sock.setblocking(False)
        except OSError:
            self._drop(link)

    def _drop(self, link: _Link) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(link.sock)
        if link in self._strangers:
            self._strangers.remove(link)
        if link.rank is not None and self._links.get(link.rank) is link:
            del self._links[link.rank]
            if self._is_open and link.rank not in self._written:
                self._failed.add(link.rank)
        link.sock.close()
