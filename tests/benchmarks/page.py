"""Brings docs/performance.md up to date: the tables between its marks, and the plots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks import plots, report

BEGIN = "<!-- measured: written by make bench -->"
END = "<!-- end of what make bench writes -->"


def write(results: Mapping[str, Any], docs: Path) -> None:
    """Replace what is between the marks and draw the plots.

    Raises:
        ValueError: the page has lost its marks.
    """
    path = docs / "performance.md"
    path.write_text(replace(path.read_text(), report.tables(results)))
    plots.draw(results, docs / "images")


def replace(text: str, tables: str) -> str:
    """The page with new tables.

    Raises:
        ValueError: it has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"
