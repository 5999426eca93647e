"""di logs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from di_api.phase import Phase
from di_cli.access.history import History, HistoryAddress
from di_cli.access.local_runs import end_of_run
from di_cli.actions.history import open_history
from di_cli.actions.logs import NoPods, is_meant, sources_there
from di_cli.commands.history_options import reads_history
from di_cli.commands.options import Context, JobName, Local, Namespace, Task
from di_cli.durations import read_duration
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.followed import Followed
from di_cli.logs.merged import MOST_PODS, Line, read_all
from di_cli.logs.read import Asked
from di_cli.logs.sources import Source, sources_of
from di_cli.output import in_colour, note, say, suggest
from di_cli.session import Session, open_session
from di_cli.views.followed import state_of
from di_cli.views.history import ended_pods, merged
from di_kube.errors import Unavailable
from di_kube.resources import DIJOBS

_COLOURS: Final = (32, 33, 34, 35, 36, 92, 93, 94, 95, 96)
_ALL: Final = -1
_TAIL: Final = 200
"""Default number of lines per pod, if there are several pods."""


@reads_history()
def logs(
    name: JobName,
    *,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on, with pods that come, until the job ends."),
    ] = False,
    task: Task = None,
    rank: Annotated[
        int | None, typer.Option("--rank", "-r", help="Only the pod with this rank.", min=0)
    ] = None,
    container: Annotated[
        str, typer.Option("--container", "-c", help="Absent: the program's own.")
    ] = "",
    all_containers: Annotated[
        bool, typer.Option("--all-containers", help="Of init containers and sidecars too.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="Only lines newer than this duration, such as 30s, 5m or 2h.")
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(help=f"Last lines of each log; absent: {_TAIL}; -1: all.", min=-1),
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Begin each line with its time.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write each log into a file there, whole unless --tail."
        ),
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Logs of the previous run of the container.")
    ] = False,
    ended: Annotated[
        bool, typer.Option("--ended", help="Logs of deleted pods, stored by di-history.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="With --ended: whole logs from the object storage, pod by pod."
        ),
    ] = False,
    uid: Annotated[
        str | None, typer.Option(help="With --ended: UID, if several jobs had the name.")
    ] = None,
    address: HistoryAddress,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Show the logs of all pods of a job together, in order of time."""
    if whole and (not ended or tail is not None):
        raise typer.BadParameter("--whole goes with --ended, and without --tail")
    if uid and not ended:
        raise typer.BadParameter("--uid goes with --ended")
    if ended:
        if follow or previous or since or all_containers or timestamps or save:
            raise typer.BadParameter(
                "--ended goes with --task, --rank, --container, --tail, --whole and --uid alone"
            )
        with (
            open_session(namespace, context) as session,
            open_history(session, address, context=context) as kept,
        ):
            _print_ended(
                kept,
                session.namespace,
                name,
                task=task,
                rank=rank,
                container=container,
                tail=tail,
                whole=whole,
                uid=uid,
            )
        return
    if (all_containers and container) or (save is not None and follow):
        raise typer.BadParameter(
            "--all-containers goes without --container, and --save without --follow"
        )
    most = tail if tail is not None or since or save else _TAIL
    asked = Asked(
        container=container,
        since_seconds=_seconds(since),
        tail=None if most == _ALL else most,
        previous=previous,
    )

    def choose(pods: Iterable[Mapping[str, Any]]) -> list[Source]:
        meant = [pod for pod in pods if is_meant(pod, task, rank)]
        return sources_of(meant, container=container, all_containers=all_containers)

    with open_session(
        namespace, context, job=name, local=local, connections=MOST_PODS + 3
    ) as session:
        try:
            sources = sources_there(
                session,
                name,
                task=task,
                rank=rank,
                container=container,
                all_containers=all_containers,
            )
        except NoPods:
            if not follow:
                raise
            sources = []
        if len(sources) > MOST_PODS:
            note(f"of {len(sources)} logs the first {MOST_PODS}; --task and --rank choose others")
        sources = sources[:MOST_PODS]
        if save is not None:
            _save(session, sources, asked, save)
        elif follow:
            session.job(name)
            followed = Followed(session, name, asked, choose, on_none=_no_log)
            _follow(session, name, followed, sources, timestamps=timestamps)
        else:
            has_more = _show(session, name, sources, asked, timestamps=timestamps)
            if tail is None and has_more:
                note(f"the last {most} lines of each log; --tail -1 shows all, --save writes files")
            suggest(f"di logs {name} -f", f"di why {name}")


def follow_job(name: str, namespace: str | None, context: str | None) -> None:
    """Show all logs of a job and its state on stderr, until it has ended.

    Raises CommandError if it did not succeed. Ctrl-C leaves the job alone.
    """
    last = ""

    def on_job(job: Mapping[str, Any]) -> None:
        nonlocal last
        state = state_of(job)
        if state and state != last:
            note(f"dijob/{name}: {state}")
            last = state

    def choose(pods: Iterable[Mapping[str, Any]]) -> list[Source]:
        return sources_of(pods, container="", all_containers=False)

    try:
        with open_session(namespace, context, connections=MOST_PODS + 3) as session:
            followed = Followed(session, name, Asked(), choose, on_none=_no_log, on_job=on_job)
            _follow(session, name, followed, [], timestamps=False)
    except KeyboardInterrupt:
        note(f"dijob/{name} goes on; di logs {name} -f follows it again, di delete {name} ends it")
        raise


def _show(
    session: Session, name: str, sources: list[Source], asked: Asked, *, timestamps: bool
) -> bool:
    """Print the lines there are; return whether a log may have more than was asked for."""
    width = max((len(each.label) for each in sources), default=0)
    counts = Counter[Source]()
    for line in read_all(session, sources, asked, on_none=_no_log, counts=counts):
        _print(line, width, timestamps=timestamps)
    if asked.previous and not counts:
        raise CommandError(
            f"no container of dijob/{name} that is meant has run before in its pod",
            remedy=f"di logs {name} --ended (where di-history is installed)",
            code=ExitCode.NOT_FOUND,
        )
    return asked.tail in counts.values()


def _follow(
    session: Session, name: str, followed: Followed, sources: list[Source], *, timestamps: bool
) -> None:
    """Print lines as they come until the job has ended, and report how it did."""
    width = max((len(each.label) for each in sources), default=0)
    for each in sources:
        if not each.has_begun:
            _no_log(each, f"has not begun: {each.state}")
    for line in followed.lines():
        _print(line, width, timestamps=timestamps)
    try:
        jobs = session.client.list(
            DIJOBS, session.namespace, field_selector=f"metadata.name={name}"
        )[0]
    except Unavailable:
        # The API of a run on this machine goes with it.
        if session.run is None:
            raise
        note(end_of_run(name) or f"logs: {session.run.directory}")
        return
    phase = jobs[0].get("status", {}).get("phase") if jobs else None
    if phase != Phase.SUCCEEDED:
        raise CommandError(
            f"dijob/{name} is {phase or 'gone'}",
            remedy=f"di why {name}" if jobs else f"di history {name}",
            code=ExitCode.ENDED_OTHERWISE,
        )
    note(f"dijob/{name} is {phase}")
    if session.run is not None:
        note(end_of_run(name) or f"logs: {session.run.directory}")


def _no_log(source: Source, why: str) -> None:
    note(f"{source.label}: no log: {why}")


def _save(session: Session, sources: list[Source], asked: Asked, folder: Path) -> None:
    """Write each log into a file of its own, named by its pod and container."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = 0
        for each in sources:
            path = folder / f"{each.pod}.{each.container}.log"
            lines = read_all(session, [each], asked, on_none=_no_log)
            first = next(lines, None)
            if first is None:
                continue
            with path.open("w", encoding="utf-8") as file:
                for line in chain([first], lines):
                    file.write(f"{line.time} {line.text}\n")
            files += 1
            note(f"{path}: {path.stat().st_size:,} bytes")
    except OSError as error:
        raise CommandError(
            f"{error.filename or folder} cannot be written",
            where=error.strerror or str(error),
            remedy="--save takes a folder that you may write to",
        ) from error
    say(f"{files} of {len(sources)} logs are in {folder}")


def _print(line: Line, width: int, *, timestamps: bool = False) -> None:
    pod = line.pod.ljust(width)
    if in_colour():
        colour = _COLOURS[sum(line.pod.encode()) % len(_COLOURS)]
        pod = f"\x1b[{colour}m{pod}\x1b[0m"
    at = f"{line.time} " if timestamps else ""
    sys.stdout.write(f"{pod}  {at}{line.text}\n")
    sys.stdout.flush()


def _print_ended(
    kept: History,
    namespace: str,
    name: str,
    *,
    task: str | None,
    rank: int | None,
    container: str,
    tail: int | None,
    whole: bool,
    uid: str | None,
) -> None:
    chosen = {"uid": uid} if uid else {}
    pods = ended_pods(kept.json(namespace, name, **chosen), task, rank, whole=whole)
    if not pods:
        raise CommandError(
            f"no {'whole ' if whole else ''}log of a pod of {name} is kept",
            remedy=f"di history {name}; di logs {name} shows those of pods that are there",
            code=ExitCode.NOT_FOUND,
        )
    if len(pods) > MOST_PODS:
        note(f"of {len(pods)} pods the first {MOST_PODS}; --task and --rank choose others")
    query = {**chosen, **({"container": container} if container else {})}
    if whole:
        for pod in pods[:MOST_PODS]:
            for line in kept.lines(namespace, name, f"/logs/{pod}", whole="true", **query):
                _print(Line(time="", pod=pod, text=line.partition(" ")[2]), max(map(len, pods)))
        return
    logs = [(pod, kept.text(namespace, name, f"/logs/{pod}", **query)) for pod in pods[:MOST_PODS]]
    width = max(map(len, pods))
    last = _TAIL if tail is None else tail
    for pod, text in merged(logs, None if last == _ALL else last):
        _print(Line(time="", pod=pod, text=text), width)


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return max(1, round(read_duration(text)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
