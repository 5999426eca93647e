"""di delete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from di_cli.actions.delete import delete as delete_job
from di_cli.actions.delete import wait_until_gone
from di_cli.commands.options import (
    Context,
    Local,
    Namespace,
    Selector,
    Timeout,
    complete_job,
)
from di_cli.errors import from_api, joined
from di_cli.output import say, suggest
from di_cli.session import Session, open_sessions, open_sessions_of
from di_kube.errors import ApiError


def delete(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB...]", help="The jobs.", autocompletion=complete_job),
    ] = None,
    *,
    selector: Selector = None,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the jobs and their pods are gone.")
    ] = False,
    timeout: Timeout = 300.0,
) -> None:
    """Delete jobs; their pods have their grace period to end."""
    with _chosen(names or [], selector, namespace, context, local=local) as found:
        deleted, missing = [], []
        for session, name in found:
            try:
                delete_job(session, name, wait=wait)
            except ApiError as error:
                if len(found) == 1:
                    raise
                missing.append(from_api(error))
                continue
            deleted.append((session, name))
            say(f"dijob/{name} deleted" if not wait else f"dijob/{name} is being deleted")
        for session, name in deleted if wait else ():
            wait_until_gone(session, name, timeout)
            say(f"dijob/{name} is gone")
        if missing:
            raise joined(missing)
        if not found:
            say(f"no jobs have the labels {selector}")
        suggest("di list")


@contextmanager
def _chosen(
    names: list[str],
    selector: str | None,
    namespace: str | None,
    context: str | None,
    *,
    local: bool | None,
) -> Iterator[list[tuple[Session, str]]]:
    """Yield the jobs to delete: those that are named, or those with the labels."""
    if bool(names) == (selector is not None):
        raise typer.BadParameter("name the jobs, or give their labels with -l; one of the two")
    if selector is None:
        with open_sessions_of(names, namespace, context, local=local) as by_name:
            yield [(session, name) for name, session in by_name.items()]
        return
    if not selector.strip():
        raise typer.BadParameter("-l without a label would delete every job of the namespace")
    with open_sessions(namespace, context, local=local) as sessions:
        yield [
            (session, str(job["metadata"]["name"]))
            for session in sessions
            for job in session.jobs(selector=selector)
        ]
