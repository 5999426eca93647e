"""Ends what a run has left behind when the run itself is gone, however it ended.

It is started with the run, in a session of its own, and reads a pipe that the run holds open and
never writes to. When the pipe ends, it ends every process that has the run's mark in its
environment, however far it has come from its parent. Processes of other users, and those that have
taken the mark off, are not reached. Uses the standard library alone: it is to cost next to nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MARK = "DI_LOCAL_RUN"
"""The variable that tells the processes of a run."""
_ROUNDS = 20


def start(mark: str, secret: Path) -> subprocess.Popen[bytes]:
    """Watch over the run of that mark for as long as this process lives and holds `stdin` open.

    `secret` is a file that nobody is to find when the run is over.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, str(secret)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def sweep(mark: str) -> int:
    """End every process with that mark; returns how many there were."""
    ended = 0
    # Each may start another one while it is ended.
    for _ in range(_ROUNDS):
        found = list(marked(mark))
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
            ended += 1
    return ended


def marked(mark: str) -> Iterator[int]:
    """The processes that were started with that mark, as Linux tells of them."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
        except OSError:
            # It has ended, or is another user's.
            continue


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sweep(sys.argv[1])
    Path(sys.argv[2]).unlink(missing_ok=True)
