"""di allocation."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.commands.options import Context, Format, Namespace
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import Output, note, print_lines, print_table, print_value, say, suggest
from di_cli.present import read_nodes_and_pods
from di_cli.render.table import Table, printable
from di_cli.session import open_session
from di_cli.views import allocation as views


def allocation(
    *,
    resource: Annotated[
        str | None,
        typer.Option(help="Resource to show in place of GPUs, such as memory or pods."),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    output: Format = Output.TABLE,
) -> None:
    """Show which jobs use which GPUs: nodes by jobs."""
    with open_session(namespace, context) as session:
        present = read_nodes_and_pods(session)
    if "nodes" in present.unread:
        raise CommandError(
            "without the cluster's nodes there is nothing to show",
            where="you may not list nodes",
            remedy="kubectl auth can-i list nodes",
            code=ExitCode.NOT_ALLOWED,
        )
    what = views.resource_of(present.nodes, resource)
    nodes = views.nodes_of(present.nodes, present.pods, what)
    for each in present.unread:
        note(f"not seen: {each}; what they hold counts as free")
    if not output.is_table:
        print_value(views.as_json(nodes, what), output)
    elif not nodes:
        say(f"no node has any {what}")
        suggest("di allocation --resource cpu", "kubectl get nodes")
    elif output is Output.WIDE:
        print_table(Table(header=views.WIDE, rows=views.rows(nodes)))
    else:
        print_lines(printable(line) for line in views.heat_map(nodes, what))
        suggest("di queue", "di list -A")
