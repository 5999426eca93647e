"""Ends the remaining processes of a run after the run itself has ended, however that happened.

It starts with the run, in a separate session, and reads a pipe that the run holds open and never
writes to. When the pipe closes, it kills every process with the run's mark in its environment,
whatever its parent, and lets the engine remove containers with the mark as their label. Processes
of other users, and those that removed the mark, are not reached. It uses only the standard library,
to cost almost nothing.
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
"""Variable that marks the processes of a run, and label of its containers."""
_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.01
_ENGINE_SECONDS = 60.0
_ENV_START = 50 - 3
"""Index of field 50, `env_start`, behind the name of the program, which is field 2."""


def start(mark: str, secret: Path, engine: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Watch over the run with that mark while this process lives and holds `stdin` open.

    `secret` is a file to delete after the run, `engine` the command of the container engine, if
    containers run.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, mark, str(secret), *engine],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def sweep(mark: str) -> bool:
    """Kill every process with that mark; return whether none is left, which can take a moment."""
    until = time.monotonic() + _PATIENCE_SECONDS
    # A process can start another one while it is killed.
    while found := list(marked(mark)):
        for pid in found:
            # It has ended by itself, or belongs to another user now.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def remove(mark: str, engine: Sequence[str]) -> None:
    """Let the engine remove all containers with that mark; one attempt, with a timeout."""
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


def marked(mark: str, proc: Path = Path("/proc")) -> Iterator[int]:
    """Yield the processes that were started with that mark, from /proc."""
    wanted = f"{MARK}={mark}".encode()
    for entry in proc.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in _environ(entry).split(b"\0"):
                yield int(entry.name)
        except OSError:
            # It has ended, or belongs to another user.
            continue


def _environ(entry: Path) -> bytes:
    """Return the variables of a process. They are empty for a moment while its program is being
    started, and such a process would be missed.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        found = (entry / "environ").read_bytes()
        if found or not _is_starting(entry) or time.monotonic() > until:
            return found
        time.sleep(_LOOK_SECONDS)


def _is_starting(entry: Path) -> bool:
    """Return whether a process has a program, but no variables yet (proc_pid_stat(5))."""
    # A thread of the kernel, or a process that has ended, has no program: OSError.
    (entry / "exe").readlink()
    fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
    return fields[_ENV_START] == b"0"


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sweep(sys.argv[1])
    if sys.argv[3:]:
        remove(sys.argv[1], sys.argv[3:])
    Path(sys.argv[2]).unlink(missing_ok=True)
