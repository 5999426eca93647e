"""A table of jobs that is updated in place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from di_api.phase import Phase
from di_cli.live.follow import follow
from di_cli.render.jobs import jobs_table
from di_cli.render.table import fitted, printable
from di_cli.session import Session
from di_cli.views import jobs as views

_A_SECOND: Final = 2
_STYLES: Final = {
    **dict.fromkeys(map(str, Phase), "yellow"),
    "Running": "green",
    "Succeeded": "cyan",
    "Failed": "red",
}


class _Screen:
    """The present screen; drawn twice a second, because ages grow."""

    def __init__(
        self, session: Session, namespace: str | None, width: Callable[[], int | None]
    ) -> None:
        self._session = session
        self._width = width
        self._namespace = namespace
        self._lock = threading.Lock()
        self._jobs: list[Any] = []

    def take(self, jobs: list[Any]) -> None:
        with self._lock:
            self._jobs = jobs

    def __rich__(self) -> Table:
        with self._lock:
            jobs = self._jobs
        now = self._session.now()
        rows = sorted((views.row(job, now) for job in jobs), key=views.sort_key)
        shown = fitted(jobs_table(rows, namespace=self._namespace is None), self._width())
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in shown.header:
            table.add_column(column, no_wrap=True)
        for cells in shown.rows:
            table.add_row(*(Text(printable(c), style=_STYLES.get(c, "")) for c in cells))
        table.caption = views.summary(rows) if rows else "no jobs: di submit job.yaml"
        return table


def show(
    session: Session, *, namespace: str | None, name: str | None, console: Console | None = None
) -> None:
    """Show the jobs of a namespace, or of all, until Ctrl-C; a single job until it has ended."""
    console = console or Console()
    screen = _Screen(session, namespace, lambda: console.width if console.is_terminal else None)
    with Live(screen, console=console, refresh_per_second=_A_SECOND) as live:
        for jobs in follow(session, namespace=namespace, name=name):
            screen.take(list(jobs.values()))
            live.refresh()
            if name is not None and all(map(_has_ended, jobs.values())):
                return


def _has_ended(job: Any) -> bool:
    return (job.get("status") or {}).get("phase") in ("Succeeded", "Failed")
