"""di events."""

from __future__ import annotations

from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.output import print_table, say, suggest
from di_cli.render.table import Table
from di_cli.session import open_session
from di_cli.views import events as views


def events(
    name: JobName, *, namespace: Namespace = None, context: Context = None, local: Local = None
) -> None:
    """Show the events of a job and its pods, the newest last."""
    with open_session(namespace, context, job=name, local=local) as session:
        found = session.events(name)
        if not found:
            session.job(name)
            say(f"no events of {name}: the API server keeps them for an hour")
            suggest(f"di describe {name}")
            return
        print_table(Table(header=views.HEADER, rows=views.rows(found, session.now())))
        suggest(f"di why {name}")
