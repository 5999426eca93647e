"""di compare."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from enum import StrEnum
from typing import Annotated

import typer

from di_cli.access.history import SERVER_VARIABLE, History, HistoryAddress
from di_cli.actions.compare import compare as compared
from di_cli.actions.history import open_history
from di_cli.commands.history_options import NO_HISTORY, reads_history
from di_cli.commands.options import Context, JobNames, Namespace
from di_cli.errors import CommandError
from di_cli.output import Output, in_colour, print_text, print_value, terminal_width
from di_cli.render.comparison import csv_of, tables_of
from di_cli.render.table import printable
from di_cli.session import open_session
from di_cli.views.comparison import MOST, Axis, Comparison

_LAST_ALONE = "each job has only its last report here"


class Form(StrEnum):
    """Output format of a comparison."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


@reads_history(without="it is not read")
def compare(
    names: JobNames,
    *,
    metric: Annotated[
        str,
        typer.Option(
            help="Number of the reports, in any spelling; return is the return of an episode."
        ),
    ] = "return",
    by: Annotated[
        Axis,
        typer.Option(
            help="What values are ordered by; env-step is envSteps, time since the first report."
        ),
    ] = Axis.STEP,
    lowest: Annotated[
        bool, typer.Option("--lowest", help="The lowest value is the best one.")
    ] = False,
    output: Annotated[
        Form, typer.Option("--output", "-o", help="Output format; csv has the curves.")
    ] = Form.TABLE,
    address: HistoryAddress,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Compare results of jobs; below them, show what differs between the jobs."""
    chosen = [*dict.fromkeys(names)]
    if not 2 <= len(chosen) <= MOST:
        raise typer.BadParameter(f"di compare takes 2 to {MOST} jobs, not {len(chosen)}")
    with ExitStack() as opened:
        session = opened.enter_context(open_session(namespace, context))
        kept: History | None = None
        notes = []
        if address.server != NO_HISTORY:
            try:
                kept = opened.enter_context(open_history(session, address, context=context))
            except CommandError as error:
                if address.server or os.environ.get(SERVER_VARIABLE):
                    raise
                notes.append(f"di-history was not read ({error.what}): {_LAST_ALONE}")
        else:
            notes.append(f"di-history was not read (--server none): {_LAST_ALONE}")
        found = compared(session, kept, chosen, metric, axis=by, lowest=lowest, notes=notes)
    _print(found, output)


def _print(found: Comparison, output: Form) -> None:
    for each in found.notes:
        # Names of numbers are the job's own text; no command in it is to be scoped.
        sys.stderr.write(f"note: {printable(each)}\n")
    if output is Form.JSON:
        print_value(found.as_json(), Output.JSON)
    elif output is Form.CSV:
        print_text(csv_of(found))
    else:
        print_text(tables_of(found, coloured=in_colour(), width=terminal_width()))
