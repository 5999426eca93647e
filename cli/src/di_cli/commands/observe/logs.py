"""di logs."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, Final

import typer

from di_cli.access.history import History
from di_cli.access.local_runs import end_of_run
from di_cli.commands.observe.history import Account, Authority, Server, TlsServerName, open_history
from di_cli.commands.options import Context, JobName, Local, Namespace, Task
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.merged import MOST_PODS, Line, follow_all, read_all
from di_cli.logs.read import Asked
from di_cli.output import note, on_terminal, suggest
from di_cli.session import Session, open_session
from di_cli.views.history import ended_pods, merged
from di_cli.views.pods import in_order, name_of, rank_of, task_of

_COLOURS: Final = (32, 33, 34, 35, 36, 92, 93, 94, 95, 96)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TAIL: Final = 200
"""Lines of each pod, where many are shown and nothing else is asked for."""


def logs(
    name: JobName,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on, also with pods that come, until Ctrl-C.")
    ] = False,
    task: Task = None,
    rank: Annotated[
        int | None, typer.Option("--rank", "-r", help="The pod of one rank only.", min=0)
    ] = None,
    container: Annotated[
        str, typer.Option("--container", "-c", help="Absent: the program's own.")
    ] = "",
    since: Annotated[
        str | None, typer.Option(help="Lines of the last so long: 30s, 5m, 2h.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(help=f"Last lines of each pod; absent: {_TAIL}.", min=0)
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the container that ran before.")
    ] = False,
    ended: Annotated[
        bool, typer.Option("--ended", help="Of pods that are gone, as di-history keeps them.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="With --ended: all of each log, from the object storage, pod by pod."
        ),
    ] = False,
    server: Server = None,
    account: Account = "default",
    authority: Authority = None,
    tls_server_name: TlsServerName = "",
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Show the logs of all pods of a job together, in order of time."""
    if whole and (not ended or tail is not None):
        raise typer.BadParameter("--whole goes with --ended, and without --tail")
    if ended:
        if follow or previous or since:
            raise typer.BadParameter(
                "--ended goes with --task, --rank, --container, --tail and --whole alone"
            )
        with (
            open_session(namespace, context) as session,
            open_history(
                session,
                server,
                account=account,
                authority=authority,
                tls_server_name=tls_server_name,
                context=context,
            ) as kept,
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
            )
        return
    asked = Asked(
        container=container,
        since_seconds=_seconds(since),
        tail=tail if tail is not None or since else _TAIL,
        previous=previous,
    )

    def wanted(pod: Any) -> bool:
        return (task is None or task_of(pod) == task) and (rank is None or rank_of(pod) == rank)

    with open_session(
        namespace, context, job=name, local=local, connections=MOST_PODS + 2
    ) as session:
        pods = in_order(pod for pod in session.pods(name) if wanted(pod))
        width = max((len(name_of(pod)) for pod in pods), default=0)
        if follow:
            session.job(name)
            for line in follow_all(session, name, asked, wanted):
                _print(line, width)
            note(end_of_run(name))
            return
        if not pods:
            _no_pods(session, name, task, rank)
        if len(pods) > MOST_PODS:
            note(f"of {len(pods)} pods the first {MOST_PODS}; --task and --rank choose others")
        for line in read_all(session, [dict(pod) for pod in pods[:MOST_PODS]], asked):
            _print(line, width)
        suggest(f"di logs {name} -f", f"di why {name}")


def _print(line: Line, width: int) -> None:
    pod = line.pod.ljust(width)
    if on_terminal():
        colour = _COLOURS[sum(line.pod.encode()) % len(_COLOURS)]
        pod = f"\x1b[{colour}m{pod}\x1b[0m"
    sys.stdout.write(f"{pod}  {line.text}\n")
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
) -> None:
    pods = ended_pods(kept.json(namespace, name), task, rank, whole=whole)
    if not pods:
        raise CommandError(
            f"no {'whole ' if whole else ''}log of a pod of {name} is kept",
            remedy=f"di history {name}; di logs {name} shows those of pods that are there",
            code=ExitCode.NOT_FOUND,
        )
    if len(pods) > MOST_PODS:
        note(f"of {len(pods)} pods the first {MOST_PODS}; --task and --rank choose others")
    query = {"container": container} if container else {}
    if whole:
        for pod in pods[:MOST_PODS]:
            for line in kept.lines(namespace, name, f"/logs/{pod}", whole="true", **query):
                _print(Line(time="", pod=pod, text=line.partition(" ")[2]), max(map(len, pods)))
        return
    logs = [(pod, kept.text(namespace, name, f"/logs/{pod}", **query)) for pod in pods[:MOST_PODS]]
    width = max(map(len, pods))
    for pod, text in merged(logs, _TAIL if tail is None else tail):
        _print(Line(time="", pod=pod, text=text), width)


def _no_pods(session: Session, name: str, task: str | None, rank: int | None) -> None:
    session.job(name)
    which = "".join(
        f" {word} {value}" for word, value in (("task", task), ("rank", rank)) if value is not None
    )
    raise CommandError(
        f"dijob/{name} has no pods{' of' if which else ''}{which}",
        remedy=f"di describe {name}",
        code=ExitCode.NOT_FOUND,
    )


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no time; give 30s, 5m, 2h or 1d")
    return max(1, int(found[1]) * _SECONDS[found[2]])
