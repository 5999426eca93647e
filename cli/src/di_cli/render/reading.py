"""How many objects a command has read, for lists that take seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

FIRST: Final = 2.0
"""Seconds until the number is shown: most lists are read before."""
_START_OF_LINE: Final = "\r\x1b[K"


class ReadingLine:
    """A line on the terminal with the number of objects read; nothing without a terminal.

    Args:
        what: the objects' name in plural, such as ``jobs``.
    """

    def __init__(
        self,
        what: str,
        stream: TextIO | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self._began = monotonic()
        self._read = 0
        self._is_shown = False

    def add(self, read: int, left: int | None) -> None:
        """Count a page, and show the number; `left` objects are to come, if that is known."""
        self._read += read
        if self._monotonic() - self._began < FIRST or not self._is_terminal():
            return
        of = "" if left is None else f" of {self._read + left:,}"
        self._write(f"read {self._read:,}{of} {self._what}")
        self._is_shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._write("")
            self._is_shown = False

    def _is_terminal(self) -> bool:
        return self._stream.isatty() and os.environ.get("TERM") != "dumb"

    def _write(self, text: str) -> None:
        self._stream.write(f"{_START_OF_LINE}{text}")
        self._stream.flush()
