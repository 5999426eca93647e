"""di usage."""

from __future__ import annotations

import csv
import json
import sys
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from di_api.field_error import mapping
from di_api.timestamps import format_time
from di_cli.access.history import History, HistoryAddress
from di_cli.actions.history import open_history
from di_cli.commands.history_options import reads_history
from di_cli.commands.options import AllNamespaces, Context, Namespace, duration_of
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import Output, print_table, print_value, say
from di_cli.render.table import Table
from di_cli.session import open_session
from di_cli.views.usage import By, Split, cells, flat, header, records

_LONGEST: Final = 3650 * 24 * 3600.0
"""Seconds; di-history accepts ten years."""


class Form(StrEnum):
    """Output format of usage."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@reads_history()
def usage(
    *,
    by: Annotated[By, typer.Option("--by", help="Group of each row.")] = By.JOB,
    since: Annotated[
        float,
        typer.Option(
            "--since",
            parser=duration_of,
            metavar="DURATION",
            help="Time until now that counts, such as 12h or 30d; at most ten years.",
            show_default="30d",
        ),
    ] = duration_of("30d"),
    phases: Annotated[
        bool, typer.Option("--phases", help="Divide the GPU-hours by the phase of the job.")
    ] = False,
    useful: Annotated[
        bool,
        typer.Option(
            "--useful",
            help="Divide the GPU-hours by their use: training, waiting, stale samples, lost.",
        ),
    ] = False,
    monthly: Annotated[
        bool, typer.Option("--monthly", help="Show a row for each calendar month (UTC) and group.")
    ] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="Output format.")] = Form.TABLE,
    address: HistoryAddress,
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show the GPU-hours that jobs held, from the history; deleted jobs included."""
    splits = [*([Split.PHASES] if phases else []), *([Split.USEFUL] if useful else [])]
    with (
        open_session(namespace, context) as session,
        open_history(session, address, context=context) as history,
    ):
        now = session.now()
        first = now - timedelta(seconds=min(since, _LONGEST, now.timestamp()))
        place = session.namespace
        query = {
            "by": by.value,
            "since": format_time(first),
            "until": format_time(now),
            "split": ",".join(splits),
            **({"every": "month"} if monthly else {}),
            **({} if all_namespaces else {"namespace": place}),
        }
        answer = _ask(history, query, place)
    rows = records(answer, by, splits)
    everything = flat(mapping(answer.get("total")), None, splits)
    if output is Form.CSV:
        month = ["month"] if monthly else []
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([*month, by.value, *everything])
        writer.writerows(["" if value is None else value for value in row.values()] for row in rows)
    elif output is Form.JSON:
        body = {
            "since": format_time(first),
            "until": format_time(now),
            "usage": rows,
            "total": everything,
        }
        print_value(body, Output.JSON)
    elif not rows:
        where = "any namespace" if all_namespaces else f"namespace {place}"
        say(f"no pod of a job in {where} was on a node in that time")
    else:
        blank = ["total", *([""] if monthly else [])]
        summed = [(*blank, *cells(everything, by))] if rows[1:] else []
        table = [cells(row, by) for row in rows]
        print_table(Table(header=header(rows[0]), rows=[*table, *summed]))


def _ask(history: History, query: dict[str, str], place: str) -> dict[str, Any]:
    """Return the answer of di-history.

    Raises:
        CommandError: a refusal, or a di-history without this answer.
    """
    try:
        found: dict[str, Any] = json.loads(history.get("/usage", query, place))
    except CommandError as error:
        if error.code != ExitCode.NOT_FOUND:
            raise
        raise CommandError(
            "di-history does not add up usage: it is older than this di",
            remedy="upgrade the chart, or use the di of its version",
        ) from error
    return found
