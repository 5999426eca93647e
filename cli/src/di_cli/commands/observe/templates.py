"""di templates."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from di_api.field_error import mapping
from di_cli.actions.job_templates import template as read_template
from di_cli.actions.job_templates import templates as read_templates
from di_cli.commands.options import Context, Format, Namespace
from di_cli.output import Output, print_lines, print_table, print_value, say, suggest
from di_cli.render.table import Table
from di_cli.session import open_session


def templates(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this template; as YAML.")
    ] = None,
    *,
    namespace: Namespace = None,
    context: Context = None,
    output: Format = Output.TABLE,
) -> None:
    """Show the templates that jobs can be submitted with."""
    with open_session(namespace, context) as session:
        found = read_templates(session) if name is None else [read_template(session, name)]
        of = session.namespace
    if output is Output.NAME:
        print_lines(f"{each['kind'].lower()}/{each['metadata']['name']}" for each in found)
    elif name is not None:
        print_value(_cleaned(found[0]), Output.JSON if output is Output.JSON else Output.YAML)
    elif not output.is_table:
        listed = [_cleaned(each) for each in found]
        print_value({"apiVersion": "v1", "kind": "List", "items": listed}, output)
    elif not found:
        say(f"there are no templates in namespace {of} or the cluster")
    else:
        print_table(Table(header=("NAME", "KIND", "DESCRIPTION"), rows=list(map(_row, found))))
        suggest(f"di submit train.py --template {found[0]['metadata']['name']}")


def _row(found: dict[str, Any]) -> tuple[str, str, str]:
    about = str(mapping(found.get("spec")).get("description") or "-")
    return found["metadata"]["name"], found["kind"], " ".join(about.split())


def _cleaned(found: dict[str, Any]) -> dict[str, Any]:
    shown = ("name", "namespace", "labels", "annotations")
    metadata = {key: found["metadata"][key] for key in shown if key in found["metadata"]}
    return {
        "apiVersion": found.get("apiVersion"),
        "kind": found["kind"],
        "metadata": metadata,
        "spec": found.get("spec"),
    }
