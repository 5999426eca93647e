"""Wait for a phase or a condition of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from di_cli.access.local_runs import end_of_run
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.live.follow import follow
from di_cli.session import Session
from di_cli.views.waiting import Goal, Outcome

Object = dict[str, Any]
GONE: Final = "delete"


def wait_for(
    session: Session,
    name: str,
    goal: str,
    seconds: float | None,
    *,
    on_job: Callable[[Object], None] = lambda _: None,
) -> None:
    """Return when a job is in a phase, has a condition, or is gone.

    Args:
        goal: as `Goal.parse` takes it.
        seconds: maximum time; None: without a limit.
        on_job: called with the job at each change.

    Raises:
        CommandError: the time has passed, or the job cannot reach the goal any more.
        ValueError: the goal has another form.
    """
    wanted = Goal.parse(goal)
    if goal != GONE:
        session.job(name)
    for jobs in follow(session, namespace=session.namespace, name=name, seconds=seconds):
        job = jobs.get((session.namespace, name))
        if job is not None:
            on_job(job)
        outcome = wanted.judge(job)
        if outcome is Outcome.REACHED:
            return
        if outcome is Outcome.IMPOSSIBLE:
            raise not_reached(name, goal, job)
    if session.is_over:
        if goal == GONE:
            return
        raise CommandError(
            f"the run of {name} on this machine is over, and will not be {goal}",
            where=end_of_run(name),
            code=ExitCode.ENDED_OTHERWISE,
        )
    raise CommandError(
        f"dijob/{name} is not {goal} after {seconds:g} s",
        remedy=f"di why {name}",
        code=ExitCode.TIMED_OUT,
    )


def not_reached(name: str, goal: str, job: Object | None) -> CommandError:
    """Return the error for a goal that a job (None: it is deleted) cannot reach any more."""
    phase = (job or {}).get("status", {}).get("phase")
    return CommandError(
        f"dijob/{name} {f'is {phase}' if job else 'is gone'}, and will not be {goal}",
        remedy=f"di why {name}",
        code=ExitCode.ENDED_OTHERWISE,
    )
