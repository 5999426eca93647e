"""di history."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from di_cli.access.history import HistoryAddress
from di_cli.actions.history import open_history
from di_cli.commands.history_options import reads_history
from di_cli.commands.options import Context, Format, JobOrNone, Namespace
from di_cli.edits.rollback import difference
from di_cli.output import Output, print_lines, print_table, print_value, say, suggest
from di_cli.render.table import Table
from di_cli.session import open_session
from di_cli.views import history as views
from di_cli.views.history import (
    PLACEMENTS,
    REVISIONS,
    RUNS,
    TIMELINE,
    head,
    placements,
    revisions,
    timeline,
)


@reads_history()
def history(
    name: JobOrNone = None,
    *,
    runs: Annotated[
        bool, typer.Option("--runs", help="List all jobs that had the name, with their UIDs.")
    ] = False,
    revision: Annotated[
        int | None, typer.Option(help="Print the job's manifest at this revision.", min=0)
    ] = None,
    diff: Annotated[
        tuple[int, int] | None,
        typer.Option(
            "--diff",
            metavar="NUMBER NUMBER",
            help="Show the difference of two revisions, and the code that each had.",
            min=0,
        ),
    ] = None,
    pods: Annotated[bool, typer.Option("--pods", help="Show the nodes of its pods.")] = False,
    uid: Annotated[
        str | None, typer.Option(help="UID, if several jobs had the name; absent: the last.")
    ] = None,
    output: Format = Output.TABLE,
    address: HistoryAddress,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show what happened to a job, also after its deletion; without a name list ended jobs."""
    if name is None and (runs or revision is not None or diff is not None or pods or uid):
        raise typer.BadParameter("--runs, --revision, --diff, --pods and --uid go with a name")
    chosen = {"uid": uid} if uid else {}
    with (
        open_session(namespace, context) as session,
        open_history(session, address, context=context) as kept,
    ):
        if name is None or runs:
            of_name = {"over": "true"} if name is None else {"name": name}
            _print_runs(kept.jobs(session.namespace, **of_name), output)
            return
        if revision is not None:
            path = f"/revisions/{revision}"
            form = Output.YAML if output.is_table else output
            print_value(kept.json(session.namespace, name, path, **chosen), form)
            return
        if diff is not None:
            both = [
                kept.json(session.namespace, name, f"/revisions/{number}", **chosen)
                for number in diff
            ]
            print_lines(
                [
                    *views.codes(dict(zip(diff, both, strict=True))),
                    *(difference(*both) or [f"{name} has the same spec in both revisions"]),
                ]
            )
            return
        found = kept.json(session.namespace, name, **chosen)
    if not output.is_table:
        print_value(found, output)
    elif pods:
        print_table(Table(header=PLACEMENTS, rows=placements(found)))
    else:
        say(head(found))
        print_table(Table(header=TIMELINE, rows=timeline(found)))
        say("")
        print_table(Table(header=REVISIONS, rows=revisions(found)))
        suggest(f"di logs {name} --ended", f"di history {name} --revision 1", f"di why {name}")


def _print_runs(jobs: list[dict[str, Any]], output: Output) -> None:
    if not output.is_table:
        print_value(jobs, output)
        return
    print_table(Table(header=RUNS, rows=views.runs(jobs)))
    if jobs:
        name, uid = jobs[0].get("name"), jobs[0].get("uid")
        suggest(f"di history {name} --uid {uid}", f"di logs {name} --ended --uid {uid}")
