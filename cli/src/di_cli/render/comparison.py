"""A comparison of jobs as text."""

from __future__ import annotations

import csv
from io import StringIO

from di_cli.render.table import Table, draw
from di_cli.views.comparison import DIFFERENCES, Comparison


def tables_of(found: Comparison, *, coloured: bool = False, width: int | None = None) -> str:
    """Return the table of results, and below it that of the differences between the jobs."""
    header, rows = found.table()
    results = draw(Table(header=header, rows=rows), coloured=coloured, width=width)
    different = Table(header=DIFFERENCES, rows=found.difference_rows())
    if not different.rows:
        return f"{results}\nthe jobs have the same spec, and ran on the same nodes\n"
    return f"{results}\n{draw(different, coloured=coloured, width=width)}"


def csv_of(found: Comparison) -> str:
    """Return the curves as CSV."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(found.csv_rows())
    return text.getvalue()
