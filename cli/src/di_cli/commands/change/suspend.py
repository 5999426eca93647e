"""di suspend, di resume."""

from __future__ import annotations

from di_cli.actions.suspend import set_suspended
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.output import say, suggest
from di_cli.session import open_session


def suspend(
    name: JobName, *, namespace: Namespace = None, context: Context = None, local: Local = None
) -> None:
    """End a job's pods gracefully and keep the job waiting."""
    _set(name, namespace, context, local, value=True)
    say(f"dijob/{name} suspended")
    suggest(f"di resume {name}")


def resume(
    name: JobName, *, namespace: Namespace = None, context: Context = None, local: Local = None
) -> None:
    """Let a suspended job continue."""
    _set(name, namespace, context, local, value=False)
    say(f"dijob/{name} resumed")
    suggest(f"di watch {name}")


def _set(
    name: str, namespace: str | None, context: str | None, local: bool | None, *, value: bool
) -> None:
    with open_session(namespace, context, job=name, local=local) as session:
        set_suspended(session, name, value=value)
