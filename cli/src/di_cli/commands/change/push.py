"""di push."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.actions.push import push as push_code
from di_cli.commands.options import Context, JobName, Namespace, Store
from di_cli.output import say, suggest
from di_cli.session import open_session

_SHOWN = 5


def push(
    name: JobName,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROGRAM|FOLDER]",
            help="What to send; absent: the same program or folder as before, from here.",
        ),
    ] = None,
    *,
    requirements: Annotated[
        str | None,
        typer.Option("--with", metavar="FILE", help="Requirements; absent: the same as before."),
    ] = None,
    store: Store = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Send changed code to a job and restart its pods; no restart is counted."""
    with open_session(namespace, context) as session:
        pushed = push_code(session, name, path, requirements, store)
    if not pushed.restarts:
        say(f"dijob/{name} has this code already")
        return
    changed = pushed.changed
    listed = ", ".join(changed[:_SHOWN]) + (" and more" if len(changed) > _SHOWN else "")
    state = " when it is resumed" if pushed.is_suspended else ""
    say(f"dijob/{name} restarts with new code{state}{f': {listed}' if changed else ''}")
    suggest(f"di logs {name} -f", f"di watch {name}")
