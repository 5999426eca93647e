"""di exec, attach, cp, port-forward and artifacts: di selects the pod, kubectl does the rest.

kubectl handles terminals, their sizes, streams and tar well. It replaces this process, so signals
and exit codes are its own; only what the user may not do is refused before. A copy has no use for a
terminal: its kubectl is a child, whose failure gets an exit code of di.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from di_api.field_error import mapping
from di_api.pods.main_container import phase_of
from di_cli.access.kubectl import command_line, kubectl
from di_cli.access.reviews import refusal
from di_cli.actions.reader import reading
from di_cli.commands.options import Context, JobName, Namespace, Task
from di_cli.edits.kept_files import (
    READER,
    KeptFile,
    KeptPath,
    folders,
    kept_files,
    kept_paths,
    listing,
    of_task,
    without_repeats,
)
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.read import container_of
from di_cli.output import print_table, suggest
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views.pods import in_order, name_of, rank_of, state_of, task_of

_MOST_COPIES: Final = 5
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
_Pod = Annotated[str, typer.Option("--pod", help="Name of the pod, as in di artifacts.")]
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
        pod, chosen = _choose(session, name, _Wanted(task, rank), container)
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
        pod, chosen = _choose(session, name, _Wanted(task, rank), container)
        _require(session, pod, "attach")
        arguments = _arguments(session, ["attach", pod, "--container", chosen])
    _become(arguments)


def copy(
    source: Annotated[str, typer.Argument(help="A path, or JOB:PATH.")],
    target: Annotated[str, typer.Argument(help="A path, or JOB:PATH.")],
    *,
    task: Task = None,
    rank: _Rank = None,
    pod: _Pod = "",
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
    (name,), (of, path) = jobs, ends[0]
    wanted = _Wanted(task, rank, pod)
    with open_session(namespace, context) as session:
        kept = _kept(session, name, path, wanted) if of else []
        place = _place(session, name, kept, image, wanted=wanted, own=container)
        with place as (at, chosen):
            _require(session, at, "exec")
            if not of:
                words = [source, f"{at}:{ends[1][1]}"]
            else:
                kept_at = _in_folder(session, name, kept, path, at=at, wanted=wanted)
                words = [f"{at}:{kept_at}", _named(target, path)]
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
        found: list[KeptFile] = []
        for of, paths in without_repeats(kept).items():
            wanted = _Wanted(of)
            in_pod = [each for each in paths if not each.is_of_pods]
            if not _running(session, name, wanted):
                in_pod = []
            in_reader = [each for each in paths if each not in in_pod]
            for listed, on_claims in ((in_pod, []), (in_reader, in_reader)):
                if not listed:
                    continue
                with _place(session, name, on_claims, image, wanted=wanted) as (pod, container):
                    _require(session, pod, "exec")
                    words = ["exec", pod, "--container", container, "--", *listing(listed)]
                    found += kept_files(_told(_arguments(session, words), name), listed, job)
    files = [each for each in found if task in (None, each.task)]
    print_table(_table(files))
    if files:
        pod = f" --pod {files[0].pod}" if files[0].pod else ""
        suggest(f"di cp {name}:{files[0].path} .{pod}")


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
        pod, _ = _choose(session, name, _Wanted(task, rank), "")
        _require(session, pod, "portforward")
        arguments = _arguments(session, ["port-forward", pod, *ports])
    _become(arguments)


def _table(files: Sequence[KeptFile]) -> Table:
    """Return the table, with a column for the pods if a file belongs to one."""
    rows = [(each.path, each.size, each.claim, each.task) for each in files]
    header: tuple[str, ...] = ("FILE", "SIZE", "CLAIM", "TASK")
    if not any(each.pod for each in files):
        return Table(header=header, rows=rows)
    with_pods = [(*row, each.pod) for row, each in zip(rows, files, strict=True)]
    return Table(header=(*header, "POD"), rows=with_pods)


def _kept(session: Session, job: str, path: str, wanted: _Wanted) -> list[KeptPath]:
    """Return the paths to mount for reading `path` of a job; none if a pod with it runs."""
    if _running(session, job, wanted):
        return []
    kept = kept_paths(session.job(job))
    found = of_task(kept, path, wanted.task)
    if wanted.is_one_pod and not any(each.is_of_pods and each.has(path) for each in found):
        return []
    if found:
        return found
    listed = ", ".join(dict.fromkeys(each.path for each in kept))
    raise CommandError(
        f"no pod of dijob/{job} runs, and {path} is on none of its claims",
        where=f"on claims: {listed}" if listed else "none is mounted",
        remedy=f"di artifacts {job}" if listed else f"di describe {job}",
        code=ExitCode.NOT_FOUND,
    )


def _in_folder(
    session: Session, job: str, kept: Sequence[KeptPath], path: str, *, at: str, wanted: _Wanted
) -> str:
    """Return the place of a path in the reading pod `at`, which has a folder for each pod."""
    on = [each for each in kept if each.is_of_pods and each.has(path)]
    if not on:
        return path
    (folder, *_) = sorted(on, key=lambda each: len(each.path), reverse=True)
    words = ["exec", at, "--container", READER, "--", "ls", folder.path]
    found = folders(_told(_arguments(session, words), job), session.job(job), wanted.task)
    names = [name_of(each) for each in _pods(session, job, wanted)]
    chosen = [each for each in found if not wanted.is_one_pod or each in (wanted.pod, *names)]
    if chosen:
        return folder.of_pod(chosen[0], path)
    raise CommandError(
        f"no such pod of dijob/{job} has left files in {folder.path}",
        where=f"pods with files: {', '.join(found)}" if found else "no pod has",
        remedy=f"di artifacts {job}, which names pods for --pod",
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
    wanted: _Wanted,
    own: str = "",
) -> Iterator[tuple[str, str]]:
    """Have a pod and its container: one that reads `kept`, or without that a running one of the
    job.
    """
    if kept:
        # A claim that a pod uses may be attached to the pod's node only.
        running = _running(session, job, _Wanted(kept[0].task))
        node = str(mapping(running[0].get("spec")).get("nodeName") or "") if running else ""
        with reading(session, session.job(job), kept, image, node) as pod:
            yield pod, READER
    else:
        yield _choose(session, job, wanted, own)


def _nothing_kept(name: str, task: str | None) -> CommandError:
    of = f"dijob/{name}" if task is None else f"task {task} of dijob/{name}"
    return CommandError(
        f"{of} has no files that outlive its pods",
        where="no claim is mounted by spec.artifacts, spec.checkpoint or a template",
        remedy=f"di cp {name}:PATH . while it runs; for the next run docs/how-to/artifacts.md",
        code=ExitCode.NOT_FOUND,
    )


def _told(arguments: list[str], job: str) -> str:
    """Return what a command in a pod printed, even if it could not read everything."""
    done = subprocess.run([kubectl(arguments), *arguments[1:]], capture_output=True, check=False)
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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The pods that the options select."""

    task: str | None = None
    rank: int | None = None
    pod: str = ""

    @property
    def is_one_pod(self) -> bool:
        """Return whether one pod is meant, and not the first one."""
        return self.rank is not None or bool(self.pod)

    def has(self, pod: Mapping[str, Any]) -> bool:
        """Return whether a pod is selected."""
        return (
            (self.task is None or task_of(pod) == self.task)
            and (self.rank is None or rank_of(pod) == self.rank)
            and self.pod in ("", name_of(pod))
        )


def _running(session: Session, job: str, wanted: _Wanted) -> list[Mapping[str, Any]]:
    return [pod for pod in _pods(session, job, wanted) if phase_of(pod) == "Running"]


def _pods(session: Session, job: str, wanted: _Wanted) -> list[Mapping[str, Any]]:
    return [pod for pod in in_order(session.pods(job)) if wanted.has(pod)]


def _choose(session: Session, job: str, wanted: _Wanted, container: str) -> tuple[str, str]:
    """Return the selected pod, and its container: the first running one by rank."""
    pods = _pods(session, job, wanted)
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
    return command_line(session.access, session.namespace, words)


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

    kubectl often ends with 0 although the tar in the pod failed, so tar's messages count too. It
    can end in the middle of a message, which then may be one of a failure or not: the copy is made
    again.
    """
    for _ in range(_MOST_COPIES):
        # kubectl writes the messages of the pod's tar to its stdout.
        done = subprocess.run(
            [kubectl(arguments), *arguments[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        told = done.stdout.decode(errors="replace")
        if done.returncode or not told or told.endswith("\n"):
            break
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
    os.execv(kubectl(arguments), arguments)


def _split(text: str) -> tuple[str, str]:
    job, colon, path = text.partition(":")
    return (job, path) if colon and "/" not in job else ("", text)
