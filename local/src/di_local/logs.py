"""The logs of a run's pods, line by line, from their files."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

LOOK_SECONDS: Final = 0.2
"""Seconds between two reads of a growing log, and the precision of a line's time."""
_AT_ONCE: Final = 1 << 16
_PART: Final = 1 << 20
"""Bytes of a log that are shown at a time."""
HANDLERS: Final = ".handlers.log"
"""Suffix of files with the output of probes and hooks."""


@dataclass(slots=True)
class LineReader:
    """Reads a growing log from its beginning."""

    path: Path
    _offset: int = 0
    _begun: bytes = b""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the new complete lines, each with its end in the file."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._offset)
            while part := file.read(_AT_ONCE):
                end = self._offset - len(self._begun)
                self._offset += len(part)
                *whole, self._begun = (self._begun + part).split(b"\n")
                for line in whole:
                    end += len(line) + 1
                    yield end, line.rstrip(b"\r")

    def part(self) -> bytes | None:
        """Return the complete lines of the next part, without carriage returns at their ends; None
        at the end of the log.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                part = file.read(_PART)
        except FileNotFoundError:
            return None
        if not part:
            return None
        self._offset += len(part)
        whole, end, rest = (self._begun + part).rpartition(b"\n")
        self._begun = rest
        return (whole + end).replace(b"\r\n", b"\n")


@dataclass(slots=True)
class Times:
    """Records when each part of each log was first seen."""

    now: Callable[[], datetime]
    _seen: dict[Path, tuple[list[int], list[datetime]]] = field(default_factory=dict)

    def look(self, path: Path) -> None:
        """Record the present length of a log."""
        ends, times = self._seen.setdefault(path, ([], []))
        size = path.stat().st_size
        if not ends or size > ends[-1]:
            ends.append(size)
            times.append(self.now())

    def of(self, path: Path, end: int) -> datetime:
        """Return when the line that ends there was first seen."""
        ends, times = self._seen.get(path, ([], []))
        place = bisect_left(ends, end)
        return times[place] if place < len(times) else self.now()


class Follower:
    """Follows the logs of all pods.

    Args:
        directory: of the pods, each with a directory for each of its lives.
        show: called with a pod's name and its new lines.
    """

    def __init__(
        self, directory: Path, times: Times, show: Callable[[str, Sequence[str]], None]
    ) -> None:
        self._directory = directory
        self._times = times
        self._show = show
        self._readers: dict[Path, LineReader] = {}

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            # The rest of the run goes on between two parts of a long log.
            await asyncio.sleep(0 if self._show_parts() else LOOK_SECONDS)

    def look(self) -> None:
        """Show the lines since the last call."""
        while self._show_parts():
            pass

    def _show_parts(self) -> bool:
        """Show a part of each log; return whether one of them has more."""
        has_more = False
        for path in log_files(self._directory):
            self._times.look(path)
            reader = self._readers.setdefault(path, LineReader(path))
            text = reader.part()
            has_more = has_more or text is not None
            if text:
                self._show(path.parent.parent.name, text.decode(errors="replace").split("\n")[:-1])
        return has_more


def log_files(directory: Path) -> list[Path]:
    """Return the logs of all containers of a run."""
    found = directory.glob("*/*/*.log")
    return sorted(path for path in found if not path.name.endswith(HANDLERS))


def last_lines(path: Path, count: int | None) -> list[str]:
    """Return the last lines of a log, or all."""
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=count)]
    except OSError:
        return []
