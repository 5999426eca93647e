"""di exec, attach, cp and port-forward: di selects the pod, kubectl does the rest.

kubectl handles terminals, their sizes, streams and tar well. It replaces this process, so signals
and exit codes are its own; only what the user may not do is refused before. A copy has no use for a
terminal: its kubectl is a child, whose failure gets an exit code of di.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Annotated, Final

import typer

from di_api.field_error import mapping
from di_api.pods.main_container import phase_of
from di_cli.commands.options import Context, JobName, Namespace, Task
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.read import container_of
from di_cli.session import Session, open_session
from di_cli.views.pods import in_order, name_of, rank_of, state_of, task_of
from di_kube.errors import ApiError
from di_kube.resources import SELF_ACCESS_REVIEWS

_MISSING: Final = ("No such file or directory", "no such file or directory", "doesn't exist")
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
        _require(session, pod, "exec")
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
        _require(session, pod, "attach")
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
        _require(session, pod, "exec")
        ends = [f"{pod}:{path}" if job else path for job, path in map(_split, (source, target))]
        arguments = _arguments(session, ["cp", *ends, "--container", chosen])
    _copy(arguments, jobs[0])


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
        _require(session, pod, "portforward")
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


def _require(session: Session, pod: str, subresource: str) -> None:
    """Refuse what the user may not do, because kubectl's exit code does not tell it from others.

    kubectl asks by GET or by POST, depending on its version and the API server's.
    """
    for verb in ("create", "get"):
        wanted = {
            **{"namespace": session.namespace, "resource": "pods", "name": pod},
            **{"verb": verb, "subresource": subresource},
        }
        body = {
            "apiVersion": SELF_ACCESS_REVIEWS.api_version,
            "kind": SELF_ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": wanted},
        }
        try:
            review = session.client.create(SELF_ACCESS_REVIEWS, body)
        except ApiError:
            return
        if mapping(review.get("status")).get("allowed") is not False:
            return
    raise CommandError(
        f"you are not allowed to create pods/{subresource} in namespace {session.namespace}",
        where=str(mapping(review.get("status")).get("reason") or ""),
        remedy=f"kubectl auth can-i create pods/{subresource} -n {session.namespace}; an "
        "administrator of the namespace can permit it",
        code=ExitCode.NOT_ALLOWED,
    )


def _copy(arguments: list[str], job: str) -> None:
    """Run kubectl as a child; what it wrote about a failure is the error.

    kubectl often ends with 0 although the tar in the pod failed, so tar's messages count too.
    """
    # kubectl writes the messages of the pod's tar to its stdout.
    done = subprocess.run(
        [_kubectl(arguments), *arguments[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    told = done.stdout.decode(errors="replace")
    complaints = [
        line
        for line in told.splitlines()
        if line.lower().startswith("tar: ") and "removing leading" not in line.lower()
    ]
    if done.returncode == 0 and not complaints:
        sys.stderr.write(told)
        return
    is_missing = any(words in told for words in _MISSING)
    has_no_tar = "tar" in told and "executable file not found" in told
    raise CommandError(
        "there is no such file" if is_missing else "not everything was copied",
        where=told,
        remedy=f"di exec {job} -- cat FILE > FILE, because the image has no tar"
        if has_no_tar
        else f"di exec {job} -- ls FOLDER",
        code=ExitCode.NOT_FOUND if is_missing else ExitCode.FAILED,
    )


def _become(arguments: list[str]) -> None:
    os.execv(_kubectl(arguments), arguments)


def _kubectl(arguments: list[str]) -> str:
    """Return the path of kubectl."""
    program = shutil.which("kubectl")
    if program is None:
        raise CommandError(
            "kubectl is not on the PATH, and this command leaves the connection to it",
            remedy="install kubectl; then " + " ".join(arguments),
        )
    return program


def _split(text: str) -> tuple[str, str]:
    job, colon, path = text.partition(":")
    return (job, path) if colon and "/" not in job else ("", text)
