"""One container as a process: its start, its stop, and its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that does not exist, and for one that cannot be started."""
_LAST_LOG: Final = 2048
"""Bytes of a failed container's log tail that a kubelet keeps (FallbackToLogsOnError)."""


class Process:
    """A process in a separate session, with its children."""

    def __init__(self, process: asyncio.subprocess.Process | None, code: int = 0) -> None:
        self.process = process
        self.code = code

    @property
    def pid(self) -> int | None:
        """Return the id of the first process, which leads the group; None if it could not be
        started.
        """
        return self.process.pid if self.process else None

    async def wait(self) -> int:
        """Wait for its end and return its exit code (128 plus the number of the signal that ended
        it); remaining children are killed.
        """
        if self.process is None:
            return self.code
        code = await self.process.wait()
        self.kill()
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.terminate()

    def kill(self) -> None:
        """Kill the process group."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


async def start(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path, log: Path
) -> Process:
    """Start a command; its output is appended to `log`.

    A command that cannot be started counts as ended with a shell's exit code, and the log has the
    reason.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            return Process(
                await asyncio.create_subprocess_exec(
                    *command,
                    env=dict(environment),
                    cwd=directory,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # A separate group without a terminal: Ctrl-C is for us only.
                    start_new_session=True,
                )
            )
        except OSError as error:
            output.write(f"cannot start {command[0] if command else 'nothing'}: {error}\n".encode())
            missing = isinstance(error, FileNotFoundError)
            return Process(None, _NOT_FOUND if missing else _NOT_EXECUTABLE)


def last_words(log: Path) -> str:
    """Return the log tail, as long as a kubelet keeps; empty without a log."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LAST_LOG))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
