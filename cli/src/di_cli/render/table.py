"""Tables of text with columns as wide as their content; color is never the only sign of a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_GAP: Final = "  "
_RESET: Final = "\x1b[0m"
_COLOURS: Final[Mapping[str, str]] = {
    "Running": "\x1b[32m",
    "Succeeded": "\x1b[36m",
    "Failed": "\x1b[31m",
    "Warning": "\x1b[33m",
    "Pending": "\x1b[33m",
    "Starting": "\x1b[33m",
    "Restarting": "\x1b[33m",
    "Rescheduling": "\x1b[33m",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A header, and rows with the same number of texts."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]] = field(default_factory=list)


def draw(table: Table, *, coloured: bool = False) -> str:
    """Return the table's lines."""
    lines = [tuple(table.header), *(tuple(map(printable, row)) for row in table.rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(table.header))]
    return "".join(f"{_line(line, widths, coloured=coloured)}\n" for line in lines)


def printable(text: str) -> str:
    """Return a text without control characters of a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _line(cells: Sequence[str], widths: Sequence[int], *, coloured: bool) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    if coloured:
        padded = [_paint(cell) for cell in padded]
        return _GAP.join(padded)
    return _GAP.join(padded).rstrip()


def _paint(cell: str) -> str:
    colour = _COLOURS.get(cell.strip())
    return f"{colour}{cell}{_RESET}" if colour else cell
