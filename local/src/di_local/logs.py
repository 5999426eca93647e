"""What the pods of a run say, line by line, out of the files it is kept in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.2
_AT_ONCE: Final = 1 << 16
HANDLERS: Final = ".handlers.log"
"""Ends the names of files with what probes and hooks say."""


class Follower:
    """Reads the logs of all pods as they grow.

    Args:
        directory: of the pods, each with a directory for each of its lives.
        show: takes a pod's name and a line.
    """

    def __init__(self, directory: Path, show: Callable[[str, str], None]) -> None:
        self._directory = directory
        self._show = show
        self._read: dict[Path, int] = {}
        self._begun: dict[Path, bytes] = {}

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Show what has come since the last look."""
        for path in log_files(self._directory):
            for line in self._new_lines(path):
                self._show(path.parent.parent.name, line)

    def _new_lines(self, path: Path) -> Iterator[str]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            while part := file.read(_AT_ONCE):
                *whole, rest = (self._begun.pop(path, b"") + part).split(b"\n")
                if rest:
                    self._begun[path] = rest
                for line in whole:
                    yield line.decode(errors="replace").rstrip("\r")
            self._read[path] = file.tell()


def log_files(directory: Path) -> list[Path]:
    """The logs of all containers of a run."""
    found = directory.glob("*/*/*.log")
    return sorted(path for path in found if not path.name.endswith(HANDLERS))


def last_lines(path: Path, count: int) -> list[str]:
    """The end of a log."""
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=count)]
    except OSError:
        return []
