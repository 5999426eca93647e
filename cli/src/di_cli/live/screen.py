"""A table of jobs that is updated in place."""

from __future__ import annotations

import threading
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from di_cli.live.follow import follow
from di_cli.render.table import printable
from di_cli.session import Session
from di_cli.views import jobs as views

_A_SECOND: Final = 2
_STYLES: Final = {"Running": "green", "Succeeded": "cyan", "Failed": "red"}


class _Screen:
    """The present screen; drawn twice a second, because ages grow."""

    def __init__(self, session: Session, namespace: str | None) -> None:
        self._session = session
        self._namespace = namespace
        self._lock = threading.Lock()
        self._jobs: list[Any] = []

    def take(self, jobs: list[Any]) -> None:
        with self._lock:
            self._jobs = jobs

    def __rich__(self) -> Table:
        with self._lock:
            jobs = self._jobs
        of_all = self._namespace is None
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in views.header(namespace=of_all):
            table.add_column(column, no_wrap=True)
        now = self._session.now()
        rows = sorted((views.row(job, now) for job in jobs), key=views.sort_key)
        for row in rows:
            cells = map(printable, views.cells(row, namespace=of_all))
            style = _STYLES.get(row.phase, "yellow")
            table.add_row(*(Text(c, style=style if c == row.phase else "") for c in cells))
        table.caption = views.summary(rows) if rows else "no jobs: di submit job.yaml"
        return table


def show(
    session: Session, *, namespace: str | None, name: str | None, console: Console | None = None
) -> None:
    """Show the jobs of a namespace, or of all, until Ctrl-C; a single job until it has ended."""
    screen = _Screen(session, namespace)
    with Live(screen, console=console or Console(), refresh_per_second=_A_SECOND) as live:
        for jobs in follow(session, namespace=namespace, name=name):
            screen.take(list(jobs.values()))
            live.refresh()
            if name is not None and all(map(_has_ended, jobs.values())):
                return


def _has_ended(job: Any) -> bool:
    return (job.get("status") or {}).get("phase") in ("Succeeded", "Failed")
