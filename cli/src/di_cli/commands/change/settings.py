"""di set."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.actions.patch_job import patch_job
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.edits.assignments import AssignmentError, fields, patch
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import print_lines, say, suggest
from di_cli.session import open_session


def set_fields(
    name: JobName,
    assignments: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIELD=VALUE...", help="Absent: list the mutable fields."),
    ] = None,
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Change fields of a job: di set JOB priority=high tasks.collector.maxReplicas=8."""
    if not assignments:
        print_lines(fields())
        return
    with open_session(namespace, context, job=name, local=local) as session:
        try:
            patch_job(session, name, lambda job: patch(job, assignments))
        except AssignmentError as error:
            raise CommandError(
                f"dijob/{name} was not changed",
                where=str(error),
                remedy=f"di set {name}",
                code=ExitCode.USAGE,
            ) from error
        say(f"dijob/{name} changed: {', '.join(assignments)}")
        suggest(f"di describe {name}")
