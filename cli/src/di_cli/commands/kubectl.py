"""di exec, attach, cp and port-forward: di selects the pod, kubectl does the rest.

kubectl handles terminals, their sizes, streams and tar well; it replaces this process, so signals
and exit codes are its own.
"""

from __future__ import annotations

import os
import shutil
from typing import Annotated

import typer

from di_api.pods.main_container import phase_of
from di_cli.commands.options import Context, JobName, Namespace, Task
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.read import container_of
from di_cli.session import Session, open_session
from di_cli.views.pods import in_order, name_of, rank_of, state_of, task_of

_Rank = Annotated[
    int | None, typer.Option("--rank", "-r", help="Rank of the pod; absent: the first pod.", min=0)
]
_Container = Annotated[str, typer.Option("--container", "-c", help="Absent: the program's own.")]


def execute(
    name: JobName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Absent: a shell.")
    ] = None,
    *,
    task: Task = None,
    rank: _Rank = None,
    container: _Container = "",
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Run a command in a pod of a job: di exec JOB --task learner -- nvidia-smi."""
    with open_session(namespace, context) as session:
        pod, chosen = _choose(session, name, task, rank, container)
        terminal = ["--stdin", "--tty"] if os.isatty(0) and os.isatty(1) else []
        words = ["exec", *terminal, pod, "--container", chosen, "--", *(command or ["sh"])]
        arguments = _arguments(session, words)
    _become(arguments)


def attach(
    name: JobName,
    *,
    task: Task = None,
    rank: _Rank = None,
    container: _Container = "",
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Attach to the program of a pod of a job."""
    with open_session(namespace, context) as session:
        pod, chosen = _choose(session, name, task, rank, container)
        arguments = _arguments(session, ["attach", pod, "--container", chosen])
    _become(arguments)


def copy(
    source: Annotated[str, typer.Argument(help="A path, or JOB:PATH.")],
    target: Annotated[str, typer.Argument(help="A path, or JOB:PATH.")],
    *,
    task: Task = None,
    rank: _Rank = None,
    container: _Container = "",
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Copy files to or from a pod of a job: di cp cartpole:/checkpoint ./checkpoint."""
    jobs = [job for job, _ in map(_split, (source, target)) if job]
    if len(jobs) != 1:
        raise typer.BadParameter("one of the two is JOB:PATH, the other a path here")
    with open_session(namespace, context) as session:
        pod, chosen = _choose(session, jobs[0], task, rank, container)
        ends = [f"{pod}:{path}" if job else path for job, path in map(_split, (source, target))]
        arguments = _arguments(session, ["cp", *ends, "--container", chosen])
    _become(arguments)


def port_forward(
    name: JobName,
    ports: Annotated[list[str], typer.Argument(help="PORT, or LOCAL:PORT.")],
    *,
    task: Task = None,
    rank: _Rank = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Forward ports of this machine to a pod of a job: di port-forward JOB 8080:22270."""
    with open_session(namespace, context) as session:
        pod, _ = _choose(session, name, task, rank, "")
        arguments = _arguments(session, ["port-forward", pod, *ports])
    _become(arguments)


def _choose(
    session: Session, job: str, task: str | None, rank: int | None, container: str
) -> tuple[str, str]:
    """Return the selected pod, and its container: the first running one by rank."""
    pods = [
        pod
        for pod in in_order(session.pods(job))
        if (task is None or task_of(pod) == task) and (rank is None or rank_of(pod) == rank)
    ]
    running = [pod for pod in pods if phase_of(pod) == "Running"]
    if running:
        chosen = running[0]
        return name_of(chosen), container or container_of(dict(chosen))
    session.job(job)
    seen = ", ".join(f"{name_of(pod)} is {state_of(pod)}" for pod in pods[:3]) or "there are none"
    raise CommandError(
        f"dijob/{job} has no such pod that runs",
        where=seen,
        remedy=f"di describe {job}",
        code=ExitCode.NOT_FOUND,
    )


def _arguments(session: Session, words: list[str]) -> list[str]:
    context = ["--context", session.access.context] if session.access.context else []
    return ["kubectl", *context, "--namespace", session.namespace, *words]


def _become(arguments: list[str]) -> None:
    program = shutil.which("kubectl")
    if program is None:
        raise CommandError(
            "kubectl is not on the PATH, and this command leaves the connection to it",
            remedy="install kubectl; then " + " ".join(arguments),
        )
    os.execv(program, arguments)


def _split(text: str) -> tuple[str, str]:
    job, colon, path = text.partition(":")
    return (job, path) if colon and "/" not in job else ("", text)
