"""Brings docs/performance.md up to date: tables and plots between its marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.benchmarks import plots, report

BEGIN = "<!-- measured: written by make bench -->"
END = "<!-- end of what make bench writes -->"


def write(results: Mapping[str, Any], docs: Path) -> None:
    """Replace what is between the marks and draw the plots.

    Raises:
        ValueError: the page has lost its marks.
    """
    path = docs / "performance.md"
    images = [
        f"![{caption}](images/{plots.file_name(name)})" for name, caption in plots.CAPTIONS.items()
    ]
    path.write_text(replace(path.read_text(), "\n\n".join([report.tables(results), *images])))
    plots.draw(results, docs / "images")


def replace(text: str, measured: str) -> str:
    """The page with new results.

    Raises:
        ValueError: it has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{measured}\n{END}{after}"
