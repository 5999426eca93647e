"""TCP ports for programs that tests start."""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

# Below the range that Linux takes the ports of outgoing connections from (32768 and up): one of
# those would be anybody's again before the program that it was chosen for listens on it.
_FIRST, _LAST = 20_000, 32_767
_BLOCK = 128
_LOCKS = Path(tempfile.gettempdir()) / f"di-orchestrator-ports-{os.getuid()}"


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this machine that nobody listens on, and no other run of tests is given."""
    for _ in range(_LAST - _FIRST + 1):
        with _turn:
            port = next(_candidates)
        with socket.socket() as probe:
            # As servers do: a connection that has ended and lingers is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {_FIRST} to {_LAST} of {host} is free")


def _ports() -> Iterator[int]:
    """Each port of this process once, and then all of them again."""
    mine: list[int] = []
    for block in _blocks():
        mine += block
        yield from block
    if not mine:
        raise OSError(f"other processes hold all locks in {_LOCKS}")
    yield from itertools.cycle(mine)


def _blocks() -> Iterator[range]:
    """Ports that are this process's until it ends, as many as it needs.

    A port is nobody's between the moment it is chosen and the one in which a program listens on
    it: seconds, in which a run beside this one found it free as well.
    """
    _LOCKS.mkdir(exist_ok=True)
    for first in range(_FIRST, _LAST + 1, _BLOCK):
        lock = os.open(_LOCKS / str(first), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            # Never closed: the lock ends with the process.
            yield range(first, min(first + _BLOCK, _LAST + 1))


_candidates = _ports()
_turn = threading.Lock()
