"""The table of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from di_cli.render.table import Table
from di_cli.views.jobs import OPTIONAL, Row, cells, header


def jobs_table(rows: Sequence[Row], *, wide: bool = False, namespace: bool = False) -> Table:
    """Return the table of jobs; only a wide one has all columns on any terminal."""
    head = header(wide=wide, namespace=namespace)
    drawn = [cells(each, wide=wide, namespace=namespace) for each in rows]
    if wide:
        return Table(header=head, rows=drawn)
    short = [cells(each, namespace=namespace, short=True) for each in rows]
    return Table(header=head, rows=drawn, narrow=Table(header=head, rows=short), optional=OPTIONAL)
