"""di exec, attach, cp, port-forward and artifacts: di selects the pod, kubectl does the rest.

kubectl handles terminals, their sizes, streams and tar well. It replaces this process, so signals
and exit codes are its own; only what the user may not do is refused before. A copy has no use for a
terminal: its kubectl is a child, whose failure gets an exit code of di.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from di_api.pods.main_container import phase_of
from di_cli.access.reviews import refusal
from di_cli.actions.reader import reading
from di_cli.commands.options import Context, JobName, Namespace, Task
from di_cli.edits.kept_files import (
    READER,
    KeptPath,
    kept_paths,
    listing,
    of_task,
    rows,
    without_repeats,
)
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.read import container_of
from di_cli.output import print_table, suggest
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views.pods import in_order, name_of, rank_of, state_of, task_of

_MISSING: Final = ("No such file or directory", "no such file or directory", "doesn't exist")
_Rank = Annotated[
    int | None, typer.Option("--rank", "-r", help="Rank of the pod; absent: the first pod.", min=0)
]
_Image = Annotated[
    str,
    typer.Option(
        "--image", help="Image of the pod that reads when no pod runs; absent: that of the task."
    ),
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
    image: _Image = "",
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Copy files to or from a pod of a job: di cp cartpole:/checkpoint ./checkpoint. When no pod
    runs, it reads what is on claims of the job.
    """
    ends = [_split(source), _split(target)]
    jobs = [job for job, _ in ends if job]
    if len(jobs) != 1:
        raise typer.BadParameter("one of the two is JOB:PATH, the other a path here")
    (name,) = jobs
    (name,), (of, path) = jobs, ends[0]
    with open_session(namespace, context) as session:
        is_read = bool(of) and rank is None and not _running(session, name, task, None)
        kept = _kept(session, name, path, task) if is_read else []
        place = _place(session, name, kept, image, task=task, rank=rank, own=container)
        with place as (pod, chosen):
            _require(session, pod, "exec")
            to = target if not of else _named(target, path)
            words = [f"{pod}:{path}", to] if of else [source, f"{pod}:{ends[1][1]}"]
            _copy(_arguments(session, ["cp", *words, "--container", chosen]), name)


def artifacts(
    name: JobName,
    *,
    task: Task = None,
    image: _Image = "",
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """List the files of a job that outlive its pods: those on PersistentVolumeClaims."""
    with open_session(namespace, context) as session:
        job = session.job(name)
        kept = [each for each in kept_paths(job) if task in (None, each.task)]
        if not kept:
            raise _nothing_kept(name, task)
        found: list[tuple[str, str, str, str]] = []
        for of, paths in without_repeats(kept).items():
            on_claims = [] if _running(session, name, of, None) else paths
            with _place(session, name, on_claims, image, task=of) as (pod, container):
                _require(session, pod, "exec")
                words = ["exec", pod, "--container", container, "--", *listing(paths)]
                found += rows(_told(_arguments(session, words), name), paths)
    print_table(Table(header=("FILE", "SIZE", "CLAIM", "TASK"), rows=found))
    if found:
        suggest(f"di cp {name}:{found[0][0]} .")


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


def _kept(session: Session, job: str, path: str, task: str | None) -> list[KeptPath]:
    """Return the paths to mount for reading `path` of a job without running pods."""
    kept = kept_paths(session.job(job))
    found = of_task(kept, path, task)
    if found:
        return found
    listed = ", ".join(dict.fromkeys(each.path for each in kept))
    raise CommandError(
        f"no pod of dijob/{job} runs, and {path} is on none of its claims",
        where=f"on claims: {listed}" if listed else "none is mounted",
        remedy=f"di artifacts {job}" if listed else f"di describe {job}",
        code=ExitCode.NOT_FOUND,
    )


def _named(target: str, path: str) -> str:
    """Return the target with the name of the copied file, if it is a folder by its spelling.

    kubectl copies a file to exactly the path given.
    """
    is_folder = target in (".", "..") or target.endswith("/")
    return os.path.join(target, posixpath.basename(path.rstrip("/"))) if is_folder else target


@contextmanager
def _place(
    session: Session,
    job: str,
    kept: Sequence[KeptPath],
    image: str,
    *,
    task: str | None,
    rank: int | None = None,
    own: str = "",
) -> Iterator[tuple[str, str]]:
    """Have a pod and its container: one that reads `kept`, or without that a running one of the
    job.
    """
    if kept:
        with reading(session, session.job(job), kept, image) as pod:
            yield pod, READER
    else:
        yield _choose(session, job, task, rank, own)


def _nothing_kept(name: str, task: str | None) -> CommandError:
    of = f"dijob/{name}" if task is None else f"task {task} of dijob/{name}"
    return CommandError(
        f"{of} has no files that outlive its pods",
        where="no PersistentVolumeClaim is mounted, neither by spec.checkpoint nor by a template",
        remedy=f"di cp {name}:PATH . while it runs; for the next run docs/how-to/artifacts.md",
        code=ExitCode.NOT_FOUND,
    )


def _told(arguments: list[str], job: str) -> str:
    """Return what a command in a pod printed, even if it could not read everything."""
    done = subprocess.run([_kubectl(arguments), *arguments[1:]], capture_output=True, check=False)
    complaints = done.stderr.decode(errors="replace")
    if done.returncode and not done.stdout:
        raise CommandError(
            f"the files of dijob/{job} cannot be listed",
            where=complaints,
            remedy="--image IMAGE when it has ended, of an image with sh, tar and find"
            if "executable file not found" in complaints
            else f"di exec {job} -- ls FOLDER",
        )
    sys.stderr.write(complaints)
    return done.stdout.decode(errors="replace")


def _running(
    session: Session, job: str, task: str | None, rank: int | None
) -> list[Mapping[str, Any]]:
    return [pod for pod in _pods(session, job, task, rank) if phase_of(pod) == "Running"]


def _pods(
    session: Session, job: str, task: str | None, rank: int | None
) -> list[Mapping[str, Any]]:
    return [
        pod
        for pod in in_order(session.pods(job))
        if (task is None or task_of(pod) == task) and (rank is None or rank_of(pod) == rank)
    ]


def _choose(
    session: Session, job: str, task: str | None, rank: int | None, container: str
) -> tuple[str, str]:
    """Return the selected pod, and its container: the first running one by rank."""
    pods = _pods(session, job, task, rank)
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
    place = {"namespace": session.namespace, "resource": "pods", "name": pod}
    reasons = [
        refusal(session.client, **place, verb=verb, subresource=subresource)
        for verb in ("create", "get")
    ]
    if None in reasons:
        return
    raise CommandError(
        f"you are not allowed to create pods/{subresource} in namespace {session.namespace}",
        where=str(reasons[-1]),
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
