"""di usage."""

from __future__ import annotations

import csv
import sys
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from di_api.timestamps import format_time
from di_cli.access.history import HistoryAddress
from di_cli.actions import usage as kept_usage
from di_cli.actions.history import open_history
from di_cli.commands.history_options import reads_history
from di_cli.commands.options import AllNamespaces, Context, Namespace, duration_of
from di_cli.output import Output, print_table, print_value, say
from di_cli.render.table import Table
from di_cli.session import open_session
from di_cli.views import usage as views
from di_cli.views.usage import By


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
            help="Time until now that counts, such as 12h or 30d.",
            show_default="30d",
        ),
    ] = duration_of("30d"),
    phases: Annotated[
        bool,
        typer.Option(
            "--phases",
            help="Divide the GPU-hours by the phase of the job; one request for each job.",
        ),
    ] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="Output format.")] = Form.TABLE,
    address: HistoryAddress,
    all_namespaces: AllNamespaces = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show the GPU-hours that jobs held, from the history; deleted jobs included."""
    with (
        open_session(namespace, context) as session,
        open_history(session, address, context=context) as history,
    ):
        now = session.now()
        until = round(now.timestamp() * 1000)
        first = until - round(min(since, now.timestamp()) * 1000)
        place = session.namespace
        found = kept_usage.placements(
            history, None if all_namespaces else place, first, until, account_of=place
        )
        held = views.held(found, first, until)
        # The user counts for every row, a phase for GPUs alone.
        asked = held if by is By.USER else [each for each in held if each.gpus and phases]
        known = kept_usage.known_of(history, asked, until)
    groups = views.usage(held, by, known)
    everything = views.total(held, known)
    rows = {name: views.record(group, phases=phases) for name, group in groups.items()}
    if output is Form.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([by.value, *views.record(everything, phases=phases)])
        writer.writerows([name, *row.values()] for name, row in rows.items())
    elif output is Form.JSON:
        body = {
            "since": format_time(now - timedelta(milliseconds=until - first)),
            "until": format_time(now),
            "usage": [{by.value: name or None, **row} for name, row in rows.items()],
            "total": views.record(everything, phases=phases),
        }
        print_value(body, Output.JSON)
    elif not groups:
        where = "any namespace" if all_namespaces else f"namespace {place}"
        say(f"no pod of a job in {where} was on a node in that time")
    else:
        table = [views.row(name, group, phases=phases) for name, group in groups.items()]
        summed = [("total", *views.row("", everything, phases=phases)[1:])] if table[1:] else []
        print_table(Table(header=views.header(by, phases=phases), rows=[*table, *summed]))
