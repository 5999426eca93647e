"""di watch."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.commands.options import AllNamespaces, Context, Local, Namespace, complete_job
from di_cli.live.screen import show
from di_cli.session import open_session


def watch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Absent: all jobs.", autocompletion=complete_job),
    ] = None,
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    context: Context = None,
    local: Local = None,
) -> None:
    """Show jobs live, with their progress, until Ctrl-C; one job until it has ended."""
    with open_session(namespace, context, job=name, local=local) as session:
        if name is not None:
            session.job(name)
        where = None if all_namespaces else session.namespace
        show(session, namespace=where, name=name)
