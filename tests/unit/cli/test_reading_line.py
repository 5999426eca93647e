"""The line that shows how many objects have been read."""

from __future__ import annotations

import io

import pytest
from typing_extensions import override

from di_cli.render.reading import FIRST, ReadingLine

ERASED = "\r\x1b[K"


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(stream: io.StringIO, *, seconds: float) -> str:
    clock = Clock()
    line = ReadingLine("jobs", stream, monotonic=clock)
    line.add(500, 1_500)
    clock.now = seconds
    line.add(500, 1_000)
    line.add(500, None)
    line.clear()
    line.clear()
    return stream.getvalue()


def test_a_long_list_shows_how_many_of_all_are_read_and_leaves_no_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    lines = ["read 1,000 of 2,000 jobs", "read 1,500 jobs", ""]
    assert shown(Terminal(), seconds=FIRST) == "".join(f"{ERASED}{line}" for line in lines)


def test_a_short_list_a_file_and_a_dumb_terminal_get_no_such_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shown(Terminal(), seconds=FIRST - 0.1) == ""
    assert shown(io.StringIO(), seconds=60.0) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert shown(Terminal(), seconds=60.0) == ""
