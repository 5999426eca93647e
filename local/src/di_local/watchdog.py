"""Ends what a run has left behind when the run itself is gone, however it ended.

It is started with the run, in a session of its own, and reads a pipe that the run holds open and
never writes to. When the pipe ends, it ends every process that has the run's mark in its
environment, however far it has come from its parent, and has the engine remove containers with the
mark as their label. Processes of other users, and those that have taken the mark off, are not
reached. Uses the standard library alone: it is to cost next to nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

MARK = "DI_LOCAL_RUN"
"""The variable that tells the processes of a run, and the label of its containers."""
_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.01
_ENGINE_SECONDS = 60.0


def start(mark: str, secret: Path, engine: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Watch over the run of that mark for as long as this process lives and holds `stdin` open.

    `secret` is a file that nobody is to find when the run is over, `engine` the command of the
    container engine, if containers run.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, str(secret), *engine],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def sweep(mark: str) -> bool:
    """End every process with that mark; tells whether none is left, which may take a moment."""
    until = time.monotonic() + _PATIENCE_SECONDS
    # Each may start another one while it is ended.
    while found := list(marked(mark)):
        for pid in found:
            # It has ended by itself, or has become another user's.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def remove(mark: str, engine: Sequence[str]) -> None:
    """Have the engine remove all containers of that mark; tries once, and within a bounded time."""
    with suppress(OSError, subprocess.SubprocessError):
        found = _asked([*engine, "ps", "--all", "--quiet", "--filter", f"label={MARK}={mark}"])
        if names := found.split():
            _asked([*engine, "rm", "--force", *names])


def _asked(words: Sequence[str]) -> str:
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_ENGINE_SECONDS,
        text=True,
        check=False,
    ).stdout


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
    if sys.argv[3:]:
        remove(sys.argv[1], sys.argv[3:])
    Path(sys.argv[2]).unlink(missing_ok=True)
