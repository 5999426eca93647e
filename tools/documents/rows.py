"""The rows of the documents that need a test: rows of tables, and sections without a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_DOCS: Final = ROOT / "docs"
_NO_PROMISES: Final = {
    "map",
    "performance",
    "scale",
    "architecture",
    "development",
    "gallery",
    "tested",
}
"""Pages of links, measurements, source code and programs, and the page made of the others."""
_NO_ROWS: Final = {"tutorials", "programs", "decisions"}
"""Folders of pages that promise nothing of their own."""
_LONGEST: Final = 40
_FENCE: Final = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^(#{1,3}) +(.+)$")
_RULE: Final = re.compile(r"^\|(?:[ :]*-+[ :]*\|)+$")
_EXEMPT: Final = re.compile(r"^<!-- not tested: (.+?) -->$")
_COMMENT: Final = re.compile(r"^<!--.*-->$")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table or a section without a table; an exempt table or section is one row."""

    page: str
    slug: str
    text: str
    exempt: str = ""
    """Why no test stands for it."""

    @property
    def name(self) -> str:
        """What a marker names, such as `rest.md#answers/404`."""
        return f"{self.page}#{self.slug}"


@dataclass(slots=True)
class _Section:
    title: str
    exempt: str
    promises: bool = False
    """Whether anything but headings and comments is below the heading."""
    tables: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    section: str
    text: str
    exempt: str = ""
    second: str = ""
    """The second cell."""

    @property
    def name(self) -> str:
        own = slug(self.text)
        return own if self.text is self.section else f"{slug(self.section)}/{own}"


def pages() -> dict[str, Path]:
    """The pages that have rows by their names, in the order of these.

    Raises:
        ValueError: two of them have the same name.
    """
    found = [
        each
        for each in sorted(_DOCS.rglob("*.md"), key=lambda page: page.name)
        if each.stem not in _NO_PROMISES and each.parent.name not in _NO_ROWS
    ]
    by_name = {each.name: each for each in found}
    if len(by_name) < len(found):
        raise ValueError(f"pages of docs/ need names of their own: {sorted(map(str, found))}")
    return by_name


def every_row() -> list[Row]:
    """All rows of the pages of docs/, in the order of the pages' names."""
    return [row for name, page in pages().items() for row in rows_of(name, page.read_text())]


def rows_of(page: str, text: str) -> list[Row]:
    """Rows of a page: a section is named by its heading, a row by that and its first cell.

    Where that is not unique, the second cell follows, and then a number.
    """
    found = list(_found(_FENCE.sub("code", text).splitlines()))
    count = Counter(each.name for each in found)
    names = [
        f"{each.name}-{slug(each.second)}" if count[each.name] > 1 and each.second else each.name
        for each in found
    ]
    seen: Counter[str] = Counter()
    rows = []
    for each, name in zip(found, names, strict=True):
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"
        rows.append(Row(page, unique, each.text, each.exempt))
    return rows


def slug(text: str) -> str:
    """Lower-case words of a cell or heading joined by dashes, cut after a whole word."""
    words = re.sub(r"[\W_]+", "-", text.lower()).strip("-") or "row"
    return words if len(words) <= _LONGEST else words[: _LONGEST + 1].rpartition("-")[0]


def plain(cell: str) -> str:
    """The cell without links and backslashes."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("\\|", "|").strip()


def _found(lines: Sequence[str]) -> Iterator[_Found]:
    sections = any(line.startswith("## ") for line in lines)
    section = _Section("", "")
    table_exempt = reason = first = ""
    for number, line in enumerate(lines):
        if heading := _HEADING.match(line):
            yield from _whole(section)
            level, title = heading.groups()
            section = _Section(plain(title), reason)
            # The introduction of a page with sections is no row.
            section.tables = 1 if level == "#" and sections else 0
        elif _RULE.match(line):
            section.tables += 1
            if table_exempt and not section.exempt:
                yield _Found(section.title, f"table: {_cells(lines[number - 1])}", table_exempt)
        elif line.startswith("|"):
            if not lines[number - 1].startswith("|"):
                table_exempt = reason  # The head of a table.
            elif not table_exempt and not section.exempt:
                own, second = [plain(each) for each in re.split(r"(?<!\\)\|", line)[1:3]]
                first = own or first  # An empty cell goes on with the one above.
                yield _Found(section.title, first, second=second)
        elif line and not _COMMENT.match(line):
            section.promises = True
        if line:
            exempt = _EXEMPT.match(line)
            reason = exempt[1] if exempt else reason if _COMMENT.match(line) else ""
    yield from _whole(section)


def _whole(section: _Section) -> Iterator[_Found]:
    if section.title and (section.exempt or (section.promises and not section.tables)):
        yield _Found(section.title, section.title, section.exempt)


def _cells(line: str) -> str:
    return ", ".join(filter(None, (plain(each) for each in line.strip("|").split("|"))))
