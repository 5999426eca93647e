"""di scale."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.actions.scale import scale as scale_task
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.edits.scaling import ScalingError, Wish
from di_cli.output import say, suggest
from di_cli.session import open_session


def scale(
    name: JobName,
    wishes: Annotated[
        list[str],
        typer.Argument(
            metavar="[TASK=]COUNT...", help="collector=8, collector=+2, collector=-1, or 8."
        ),
    ],
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Change the number of replicas of tasks; without TASK it is the collector task."""
    try:
        wanted = [Wish.parse(text) for text in wishes]
    except ScalingError as error:
        raise typer.BadParameter(str(error)) from error
    with open_session(namespace, context, job=name, local=local) as session:
        for wish in wanted:
            say(f"dijob/{name} scaled: {scale_task(session, name, wish)}")
        suggest(f"di watch {name}")
