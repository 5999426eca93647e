"""Tables of text with columns as wide as their content; color is never the only sign of a state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from textwrap import wrap
from typing import Final

_GAP: Final = "  "
_SHORTEST: Final = 10
"""Width below which no text gets several lines."""
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
    """A header, and rows with the same number of texts.

    Attributes:
        narrow: the same rows with shorter texts, for a terminal that is too narrow for these.
        optional: columns that a terminal that is narrower still leaves out, the first one first.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    narrow: Table | None = None
    optional: Sequence[str] = ()


class Growing:
    """The lines of a table that is printed bit by bit: each line is aligned with those before."""

    def __init__(self, *, coloured: bool = False, width: int | None = None) -> None:
        self._coloured, self._width = coloured, width
        self._header: Sequence[str] = ()
        self._widths: Sequence[int] = ()

    def draw(self, table: Table, numbers: Collection[int]) -> str:
        """Return the lines of some rows of the present table, below a header if there is a new
        one; columns never become narrower.
        """
        shown = _cut(table, self._width)
        if list(shown.header) != list(self._header):
            self._header, self._widths = shown.header, [0] * len(shown.header)
            head = [tuple(shown.header)]
        else:
            head = []
        self._widths = [*map(max, self._widths, _widths(shown))]
        lines = [*head, *(tuple(map(printable, shown.rows[number])) for number in sorted(numbers))]
        return _text(lines, self._widths, coloured=self._coloured)


def draw(table: Table, *, coloured: bool = False, width: int | None = None) -> str:
    """Return the table's lines.

    Args:
        table: the table.
        coloured: paint known states.
        width: columns of the terminal; None: lines may have any length.
    """
    shown = fitted(table, width)
    lines = [tuple(shown.header), *(tuple(map(printable, row)) for row in shown.rows)]
    return _text(lines, _widths(shown), coloured=coloured)


def fitted(table: Table, width: int | None) -> Table:
    """Return the table for a terminal with this number of columns.

    Its texts become shorter first, then optional columns go, then long texts get several lines.
    """
    found = _cut(table, width)
    widths = _widths(found)
    if width is None or _total(widths) <= width:
        return found
    shortest = [max(_SHORTEST, len(name)) for name in found.header]
    while _total(widths) > width:
        widest = max(range(len(widths)), key=lambda index: widths[index] - shortest[index])
        if widths[widest] <= shortest[widest]:
            break
        widths[widest] -= 1
    return _wrapped(found, widths)


def _cut(table: Table, width: int | None) -> Table:
    """Return the table with shorter texts and without optional columns, as far as needed."""
    if width is None or _total(_widths(table)) <= width:
        return table
    found = table.narrow or table
    for name in table.optional:
        if _total(_widths(found)) <= width:
            break
        index = list(found.header).index(name)
        found = Table(
            header=[*found.header[:index], *found.header[index + 1 :]],
            rows=[[*row[:index], *row[index + 1 :]] for row in found.rows],
        )
    return found


def _wrapped(table: Table, widths: Sequence[int]) -> Table:
    """Return the table with texts that are wider than their column in several lines."""
    rows: list[Sequence[str]] = []
    for row in table.rows:
        parts = [
            wrap(printable(cell), width) if len(cell) > width else [cell]
            for cell, width in zip(row, widths, strict=True)
        ]
        rows += zip_longest(*parts, fillvalue="")
    return Table(header=table.header, rows=rows)


def _widths(table: Table) -> list[int]:
    lines = [table.header, *table.rows]
    return [max(len(line[index]) for line in lines) for index in range(len(table.header))]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _text(lines: Sequence[Sequence[str]], widths: Sequence[int], *, coloured: bool) -> str:
    return "".join(f"{_line(line, widths, coloured=coloured)}\n" for line in lines)


def printable(text: str) -> str:
    """Return a text without control characters of a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _line(cells: Sequence[str], widths: Sequence[int], *, coloured: bool) -> str:
    last = max((index for index, cell in enumerate(cells) if cell), default=-1)
    padded = [
        cell if index == last else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return _GAP.join(map(_paint, padded) if coloured else padded).rstrip()


def _paint(cell: str) -> str:
    colour = _COLOURS.get(cell.strip())
    return f"{colour}{cell}{_RESET}" if colour else cell
