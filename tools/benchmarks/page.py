"""Brings docs/explanation/performance.md and scale.md up to date, between marks of parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.benchmarks import plots, report

BEGIN = "<!-- measured: {}, written by make bench -->"
END = "<!-- end of {} -->"


def write(results: Mapping[str, Any], docs: Path, *, is_whole: bool) -> None:
    """Replace what is between the marks of each part whose phases have run.

    Raises:
        ValueError: the page has lost its marks.
    """
    scale = docs / "explanation/scale.md"
    for name, phase, found in (
        ("scale", "memory", report.scale(results)),
        ("growth", "growth", report.growth(results)),
    ):
        if found:
            conditions = report.conditions(results, [phase, f"{phase}_100000"])
            measured = f"{found}\n\n{conditions}"
            scale.write_text(replace(scale.read_text(), name, measured))
    path = docs / "explanation/performance.md"
    text = path.read_text()
    for name, phase, found in (
        ("rival", "jobs_of_4", report.rival(results)),
        ("requests", "requests", report.requests(results)),
    ):
        if found:
            text = replace(text, name, f"{found}\n\n{report.conditions(results, [phase])}")
    if is_whole:
        images = [
            f"![{caption}](../images/{plots.file_name(name)})"
            for name, caption in plots.CAPTIONS.items()
        ]
        text = replace(text, "results", "\n\n".join([report.tables(results), *images]))
        plots.draw(results, docs / "images")
    path.write_text(text)


def replace(text: str, part: str, measured: str) -> str:
    """The page with new results of a part.

    Raises:
        ValueError: it has no marks.
    """
    begin_mark, end_mark = BEGIN.format(part), END.format(part)
    before, begin, rest = text.partition(begin_mark)
    _, end, after = rest.partition(end_mark)
    if not begin or not end:
        raise ValueError(f"the page needs the marks {begin_mark} and {end_mark}")
    return f"{before}{begin_mark}\n{measured}\n{end_mark}{after}"
