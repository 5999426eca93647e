"""di restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_cli.actions.patch_job import patch_job
from di_cli.commands.options import Context, JobName, Local, Namespace, Task
from di_cli.edits.restarting import RestartError, asks_for, restarting
from di_cli.errors import CommandError
from di_cli.output import say, suggest
from di_cli.session import Session, open_session


def restart(
    name: JobName,
    *,
    task: Task = None,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Recreate all pods of a job, or those of one task; no restart is counted."""
    with open_session(namespace, context, job=name, local=local) as session:
        try:
            _ask(session, name, task)
        except RestartError as error:
            raise CommandError(
                f"dijob/{name} was not restarted",
                where=str(error),
                remedy=error.remedy.format(job=name),
            ) from error
    say(f"dijob/{name} restarts{'' if task is None else f': task {task}'}")
    suggest(f"di watch {name}")


def _ask(session: Session, name: str, task: str | None) -> None:
    asked: list[dict[str, Any]] = []

    def operations(job: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked[:] = restarting(job, task, session.now())
        return asked

    if not asks_for(patch_job(session, name, operations), asked):
        raise RestartError(
            "the cluster's version of DIJob has no restartedAt",
            remedy="di suspend {job}; di resume {job}",
        )
