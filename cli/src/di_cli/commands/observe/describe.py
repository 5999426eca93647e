"""di describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.output import print_lines, print_table, suggest
from di_cli.render.table import Table, printable
from di_cli.session import open_session
from di_cli.views import describe as views
from di_cli.views import events as of_events
from di_cli.views import pods as of_pods

_EVENTS = 10


def describe(
    name: JobName, *, namespace: Namespace = None, context: Context = None, local: Local = None
) -> None:
    """Show all about a job: its tasks, pods, history and last events."""
    with open_session(namespace, context, job=name, local=local) as session:
        job, pods, events = session.job(name), session.pods(name), session.events(name)
        now = session.now()
        print_lines(map(printable, views.head(job, now)))
        for title, table in _tables(job, pods, events, now):
            print_lines(["", title])
            print_table(table)
        suggest(f"di why {name}", f"di logs {name}", f"di events {name}")


def _tables(job: Any, pods: Any, events: Any, now: Any) -> Iterator[tuple[str, Table]]:
    if tasks := views.tasks(job):
        yield "Tasks", Table(header=views.TASKS, rows=tasks)
    if pods:
        yield "Pods", Table(header=of_pods.HEADER, rows=of_pods.rows(pods, now))
    if conditions := views.conditions(job, now):
        yield "History", Table(header=views.CONDITIONS, rows=conditions)
    if events:
        last = of_events.rows(events, now)[-_EVENTS:]
        yield "Last events", Table(header=of_events.HEADER, rows=last)
