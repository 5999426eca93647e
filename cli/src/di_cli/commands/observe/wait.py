"""di wait."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from di_cli.access.local_runs import end_of_run
from di_cli.commands.options import Context, JobName, Local, Namespace, Timeout
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.live.follow import follow
from di_cli.output import say, suggest
from di_cli.session import open_session
from di_cli.views.waiting import Goal, Outcome

_GONE: Final = "delete"


def wait(
    name: JobName,
    *,
    goal: Annotated[
        str,
        typer.Option("--for", help="phase=PHASE, condition=TYPE, condition=TYPE=False or delete."),
    ] = "phase=Succeeded",
    timeout: Timeout = 3600.0,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Wait until a job is in a phase, has a condition, or is gone."""
    try:
        wanted = Goal.parse(goal)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with open_session(namespace, context, job=name, local=local) as session:
        if goal != _GONE:
            session.job(name)
        for jobs in follow(session, namespace=session.namespace, name=name, seconds=timeout):
            job = jobs.get((session.namespace, name))
            outcome = wanted.judge(job)
            if outcome is Outcome.REACHED:
                say(f"dijob/{name}: {goal}")
                suggest(f"di describe {name}")
                return
            if outcome is Outcome.IMPOSSIBLE:
                phase = (job or {}).get("status", {}).get("phase")
                raise CommandError(
                    f"dijob/{name} {f'is {phase}' if job else 'is gone'}, and will not be {goal}",
                    remedy=f"di why {name}",
                    code=ExitCode.ENDED_OTHERWISE,
                )
        if session.is_over:
            if goal == _GONE:
                say(f"dijob/{name}: {goal}")
                return
            raise CommandError(
                f"the run of {name} on this machine is over, and will not be {goal}",
                where=end_of_run(name),
                code=ExitCode.ENDED_OTHERWISE,
            )
    raise CommandError(
        f"dijob/{name} is not {goal} after {timeout:g} s",
        remedy=f"di why {name}",
        code=ExitCode.TIMED_OUT,
    )
