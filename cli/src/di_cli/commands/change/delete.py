"""di delete."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from di_cli.commands.options import Context, Local, Namespace, Timeout, complete_job
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.live.follow import follow
from di_cli.output import say, suggest
from di_cli.session import Session, open_session
from di_kube.resources import DIJOBS


def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="JOB...", help="The jobs.", autocompletion=complete_job)
    ],
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the jobs and their pods are gone.")
    ] = False,
    timeout: Timeout = 300.0,
) -> None:
    """Delete jobs; their pods have their grace period to end."""
    with ExitStack() as opened:
        sessions = {
            name: opened.enter_context(open_session(namespace, context, job=name, local=local))
            for name in names
        }
        for name, session in sessions.items():
            session.client.delete(
                DIJOBS,
                name,
                session.namespace,
                propagation="Foreground" if wait else "Background",
            )
            say(f"dijob/{name} deleted" if not wait else f"dijob/{name} is being deleted")
        for name, session in sessions.items() if wait else ():
            if not _is_gone(session, name, timeout):
                raise CommandError(
                    f"dijob/{name} is still there after {timeout:g} s",
                    remedy=f"di describe {name}",
                    code=ExitCode.TIMED_OUT,
                )
            say(f"dijob/{name} is gone")
        suggest("di list")


def _is_gone(session: Session, name: str, timeout: float) -> bool:
    seen = follow(session, namespace=session.namespace, name=name, seconds=timeout)
    return any(not jobs for jobs in seen) or session.is_over
