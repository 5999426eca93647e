"""di wait."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.actions.wait import wait_for
from di_cli.commands.options import Context, JobName, Local, Namespace, Timeout
from di_cli.output import say, suggest
from di_cli.session import open_session
from di_cli.views.waiting import Goal


def wait(
    name: JobName,
    *,
    goal: Annotated[
        str,
        typer.Option("--for", help="phase=PHASE, condition=TYPE, condition=TYPE=False or delete."),
    ] = "phase=Succeeded",
    timeout: Timeout = 3600.0,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Wait until a job is in a phase, has a condition, or is gone."""
    try:
        Goal.parse(goal)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with open_session(namespace, context, job=name, local=local) as session:
        wait_for(session, name, goal, timeout)
        say(f"dijob/{name}: {goal}")
        if not session.is_over:
            suggest(f"di describe {name}")
