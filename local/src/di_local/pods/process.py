"""One container as a process: started, stopped, and how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that is not there, and for one that cannot be started."""
_LAST_LOG: Final = 2048
"""Bytes of a log that a kubelet keeps of a container that failed (FallbackToLogsOnError)."""


class Process:
    """A process in a session of its own, with what it starts."""

    def __init__(self, process: asyncio.subprocess.Process | None, code: int = 0) -> None:
        self.process = process
        self.code = code

    @property
    def pid(self) -> int | None:
        """Of the first process, which leads the group; None if it could not be started."""
        return self.process.pid if self.process else None

    async def wait(self) -> int:
        """Return its exit code (128 and the number of the signal that ended it) once it has ended;
        what it left behind is ended then."""
        if self.process is None:
            return self.code
        code = await self.process.wait()
        self.kill()
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Ask it to end."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.terminate()

    def kill(self) -> None:
        """End it and all of its group."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


async def start(
    command: Sequence[str], *, environment: Mapping[str, str], directory: Path, log: Path
) -> Process:
    """Start a command; what it says is appended to `log`.

    A command that cannot be started has ended with the code of a shell, and the log says why.
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
                    # Its own group too, and no terminal: Ctrl-C is for us alone.
                    start_new_session=True,
                )
            )
        except OSError as error:
            output.write(f"cannot start {command[0] if command else 'nothing'}: {error}\n".encode())
            missing = isinstance(error, FileNotFoundError)
            return Process(None, _NOT_FOUND if missing else _NOT_EXECUTABLE)


def last_words(log: Path) -> str:
    """The end of a log, as much as a kubelet keeps; nothing if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LAST_LOG))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
