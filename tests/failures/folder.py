"""The folder of one failed test, bounded in bytes and in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tests.failures.sources import LOG_BYTES, Sources, tail

TEST_BYTES: Final = 64 << 20
"""Limit of all files of one test, in bytes."""
TEST_SECONDS: Final = 30.0
"""Time limit of all questions of one test."""
QUESTION_SECONDS: Final = 10.0


class Folder:
    """Where files of a failed test are written.

    Args:
        path: the folder; made with the first file.
        seconds: for all of its questions.
        limit: bytes of all files.
    """

    def __init__(
        self, path: Path, *, seconds: float = TEST_SECONDS, limit: int = TEST_BYTES
    ) -> None:
        self.path = path
        self.written = 0
        self._end = time.monotonic() + seconds
        self._limit = limit

    def write(self, name: str, text: bytes) -> None:
        """Write a file; no more than what is left of the test's bytes."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            left = max(0, self._limit - self.written)
            self.written += file.write(text[:left])
            if len(text) > left:
                file.write(b"\n[the rest is left out: the folder is full]\n")

    def ask(self, name: str, question: Callable[[], str]) -> None:
        """Write an answer, or why there is none: an error or a hung question fails no test."""
        seconds = min(QUESTION_SECONDS, self._end - time.monotonic())
        if seconds <= 0:
            self.write(f"{name}.error", b"not asked: there is no time left for this test\n")
            return
        answer: list[str] = []
        error: list[BaseException] = []

        def ask() -> None:
            try:
                answer.append(question())
            except BaseException as raised:
                error.append(raised)

        # A thread of its own, left behind if it hangs: an answer must not be waited for longer.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(seconds)
        if answer:
            text = answer[0].encode(errors="replace")
            self.write(name, text[:LOG_BYTES])
            if len(text) > LOG_BYTES:
                self.write(name, f"\n[{len(text) - LOG_BYTES} bytes are left out]\n".encode())
        else:
            reason = f"no answer within {seconds:.0f} s"
            if error:
                reason = f"{type(error[0]).__name__}: {error[0]}"
            self.write(f"{name}.error", f"{reason}\n".encode())

    def collect(self, sources: Sources, namespace: str) -> None:
        """Write what the sources show: answers first, since they change, then logs."""
        for number, source in enumerate(sources.running):
            for name, question in source.questions.items():
                self.ask(f"{number}-{source.name}/{name}", partial(question, namespace))
        for number, source in enumerate(sources.running):
            for name, path in source.logs().items():
                self.write(f"{number}-{source.name}/{name}", tail(path))
        for number, (source_name, logs) in enumerate(sources.ended):
            for name, text in logs.items():
                self.write(f"ended-{number}-{source_name}/{name}", text)
