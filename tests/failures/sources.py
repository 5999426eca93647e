"""What runs beside the tests of this session and can show something of itself when one fails.

Whatever starts a process or a cluster registers it here:

    with shown_log(log):
        yield process

A process that ends within a test that fails afterwards is shown, too: the ends of its logs are
kept until the test is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LOG_BYTES: Final = 1 << 20
"""What is kept of a log: its end."""
_ENDED_BYTES: Final = 64 << 20

Question = Callable[[str], str]
"""Returns a text about the state of a source, in a namespace; in all of them for ""."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Something that runs: its logs, and the questions that it answers, by the names of the files
    that they become."""

    name: str
    logs: Callable[[], Mapping[str, Path]] = dict
    questions: Mapping[str, Question] = field(default_factory=dict)


@dataclass(slots=True)
class Sources:
    """What runs, and what has ended since the present test began.

    `is_kept` is whether a failure would be reported at all: else nothing is kept of what ends.
    """

    running: list[Source] = field(default_factory=list)
    ended: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    is_kept: bool = False

    @contextmanager
    def shown(self, source: Source) -> Iterator[None]:
        """Show a source while the block runs, and its logs until the test has ended."""
        self.running.append(source)
        try:
            yield
        finally:
            self.running.remove(source)
            if self.is_kept:
                self._keep(source)

    def forget_ended(self) -> None:
        """Drop the logs of what ended before the test that begins."""
        self.ended.clear()

    def _keep(self, source: Source) -> None:
        self.ended.append((source.name, {name: tail(path) for name, path in source.logs().items()}))
        while sum(len(text) for _, logs in self.ended for text in logs.values()) > _ENDED_BYTES:
            del self.ended[0]


def tail(path: Path, limit: int = LOG_BYTES) -> bytes:
    """The end of a file; a line says how much is left out, or why it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit))
            text = file.read(limit)
    except OSError as error:
        return f"{path} cannot be read: {error}\n".encode()
    return (
        f"[the first {size - limit} bytes are left out]\n".encode() if size > limit else b""
    ) + text


SOURCES: Final = Sources()
"""The sources of this process."""


def shown_log(log: Path, name: str = "") -> AbstractContextManager[None]:
    """Show the log of a process while the block runs, and after that until the test has ended."""
    return SOURCES.shown(Source(name=name or log.stem, logs=lambda: {log.name: log}))
