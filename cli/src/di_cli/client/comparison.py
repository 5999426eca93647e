"""A comparison of jobs, as Python sees it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from typing_extensions import override

from di_cli.access.history import SERVER_VARIABLE, HistoryAddress
from di_cli.actions import compare as action
from di_cli.actions.history import open_history
from di_cli.client.errors import BadCall
from di_cli.client.pictures import Line, overlay, table
from di_cli.render.comparison import csv_of, tables_of
from di_cli.session import Session
from di_cli.views.comparison import DIFFERENCES, MOST, Axis, Comparison


class ComparedJobs:
    """Jobs beside each other; printed, it is the text of `di compare`.

    Attributes:
        results: what `di compare -o json` has of each job, by name.
        groups: the jobs that differ in their seeds alone together, with statistics over seeds.
        differences: of each field that differs the value of each job, None without one.
        notes: what is missing, and why.
    """

    def __init__(self, found: Comparison) -> None:
        self._found = found
        everything = found.as_json()
        self.results: Mapping[str, Mapping[str, Any]] = {
            each["name"]: each for each in everything["jobs"]
        }
        self.groups: Sequence[Mapping[str, Any]] = everything["groups"]
        self.differences: Mapping[str, Mapping[str, str | None]] = everything["differences"]
        self.notes: Sequence[str] = everything["notes"]

    def csv(self) -> str:
        """Return the curves as CSV: a row for each step or time, a column for each job."""
        return csv_of(self._found)

    @override
    def __str__(self) -> str:
        return tables_of(self._found).rstrip("\n")

    @override
    def __repr__(self) -> str:
        return f"<comparison of {', '.join(self.results)} by {self._found.wanted}>"

    def _repr_html_(self) -> str:
        found = self._found
        lines = (Line(each.name, each.curves(found.axis)) for each in found.groups())
        picture = overlay(found.wanted, found.axis.column, lines)
        return picture + table(*found.table()) + table(DIFFERENCES, found.difference_rows())


def compare(
    session: Session,
    names: Sequence[str],
    *,
    metric: str,
    by: str,
    lowest: bool,
    history: str | None,
) -> ComparedJobs:
    """Return a comparison of jobs of the session's namespace; see `Client.compare`."""
    chosen = [*dict.fromkeys(names)]
    if not 2 <= len(chosen) <= MOST:
        raise BadCall(f"compare() takes 2 to {MOST} jobs, not {len(chosen)}")
    if by not in {*Axis}:
        raise BadCall(f"by={by!r} is not one of {', '.join(Axis)}")
    url = history or os.environ.get(SERVER_VARIABLE)
    notes = [] if url else ["di-history was not read: each job has only its last report here"]
    with ExitStack() as opened:
        kept = None
        if url:
            kept = opened.enter_context(open_history(session, HistoryAddress(server=url)))
        return ComparedJobs(
            action.compare(session, kept, chosen, metric, axis=Axis(by), lowest=lowest, notes=notes)
        )
