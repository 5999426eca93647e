"""di list, di get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from di_api.names import LABEL_OWNER
from di_api.phase import Phase
from di_cli.access.local_runs import meant_runs
from di_cli.commands.options import (
    AllNamespaces,
    Context,
    Format,
    JobNames,
    Local,
    Namespace,
    Selector,
    duration_of,
)
from di_cli.errors import CommandError, from_api, joined
from di_cli.live.follow import follow
from di_cli.output import (
    Output,
    in_colour,
    note,
    print_lines,
    print_objects,
    print_table,
    print_text,
    say,
    suggest,
    terminal_width,
)
from di_cli.render.jobs import jobs_table
from di_cli.render.table import Growing
from di_cli.session import Session, open_session, open_sessions, open_sessions_of
from di_cli.views import jobs as views
from di_cli.views.jobs import Row
from di_cli.views.selection import Order, Wanted, listed, rows, selected
from di_kube.errors import ApiError

_Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Continue with a line for each change, until Ctrl-C.")
]

_ALL: Final = Wanted()


def list_jobs(
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = None,
    phase: Annotated[
        list[str] | None,
        typer.Option("--phase", help="Only jobs in these phases: --phase Running,Pending."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Only jobs whose label owner has this value.")
    ] = None,
    longer_than: Annotated[
        float | None,
        typer.Option(
            "--longer-than",
            parser=duration_of,
            metavar="DURATION",
            help="Only jobs that have run for at least this time, such as 90s or 1h30m.",
        ),
    ] = None,
    sort_by: Annotated[Order, typer.Option("--sort-by", help="Order of the jobs.")] = Order.NAME,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Show only the first jobs.")
    ] = None,
    context: Context = None,
    local: Local = None,
    output: Format = Output.TABLE,
    watch: _Watch = False,
) -> None:
    """List the jobs of a namespace, or of the runs on this machine."""
    wanted = Wanted(phases=_phases(phase or []), order=sort_by, shortest=longer_than, limit=limit)
    labels = ",".join(
        [*([selector] if selector else []), *([f"{LABEL_OWNER}={owner}"] if owner else [])]
    )
    if watch:
        if limit is not None or sort_by is not Order.NAME:
            raise typer.BadParameter("--watch takes no --sort-by and no --limit")
        with open_session(namespace, context, local=local) as session:
            where = None if all_namespaces else session.namespace
            _follow_rows(session, where, None, output, selector=labels or None, wanted=wanted)
        return
    with open_sessions(namespace, context, local=local) as sessions:
        if output.is_table:
            _print_list(sessions, wanted, output, labels, all_namespaces=all_namespaces)
        else:
            found = _each_job(sessions, labels, all_namespaces=all_namespaces)
            jobs = [job for job, _ in found]
            chosen = selected(jobs, wanted, sessions[0].now()) if jobs else []
            print_objects(chosen, output, as_list=True)
    if local is None and context is None and not all(session.run for session in sessions):
        runs = meant_runs(None, namespace=None, context=None, local=True)
        if runs:
            names = ", ".join(sorted({run.job for run in runs}))
            note(f"on this machine: {names}; di list --local")


def _phases(texts: list[str]) -> frozenset[str]:
    """Return the phases in `Running,failed`, in any case."""
    known = {each.value.lower(): each.value for each in Phase}
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    for word in words:
        if word.lower() not in known:
            raise typer.BadParameter(f"no phase {word!r}: {', '.join(known.values())}")
    return frozenset(known[word.lower()] for word in words)


def _each_job(
    sessions: Sequence[Session], labels: str, *, all_namespaces: bool
) -> Iterator[tuple[dict[str, Any], datetime]]:
    """Yield the jobs of all sessions, each with the time at which its session was read."""
    for session in sessions:
        now = None
        for job in session.each_job(all_namespaces=all_namespaces, selector=labels or None):
            # The API server's clock is known from its first response on.
            now = now or session.now()
            yield job, now


def _print_list(
    sessions: Sequence[Session],
    wanted: Wanted,
    output: Output,
    labels: str,
    *,
    all_namespaces: bool,
) -> None:
    found, read = [], 0
    for job, now in _each_job(sessions, labels, all_namespaces=all_namespaces):
        read += 1
        if (one := listed(job, wanted, now)) is not None:
            found.append(one)
    if found:
        queued = [each.waiting for each in found if each.waiting is not None]
        places = sessions[0].places(queued, all_namespaces=all_namespaces)
        shown = rows(found, wanted.limit, places)
        _print_rows(shown, output, namespace=all_namespaces)
        troubled = next((each for each in shown if each.hint.startswith("di why")), None)
        name = (troubled or shown[0]).name
        suggest(f"di why {name}" if troubled else f"di describe {name}", "di watch")
    elif read:
        say(f"none of the {read} jobs has the phase and the duration")
    elif not sessions or sessions[0].run:
        say("no jobs run on this machine")
        suggest("di run job.yaml", "di list --cluster")
    else:
        where = "in any namespace" if all_namespaces else f"in namespace {sessions[0].namespace}"
        say(f"no jobs {where}{f' have the labels {labels}' if labels else ''}")
        suggest("di submit job.yaml", *(() if all_namespaces else ("di list -A",)))


def get(
    names: JobNames,
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
    output: Format = Output.TABLE,
    watch: _Watch = False,
) -> None:
    """Show one job, or several by their names."""
    if watch:
        if len(names) > 1:
            raise typer.BadParameter("--watch is for one job; di list -w follows all")
        with open_session(namespace, context, job=names[0], local=local) as session:
            _follow_rows(session, session.namespace, names[0], output)
        return
    with open_sessions_of(names, namespace, context, local=local) as sessions:
        jobs, missing = _named(sessions)
        if jobs and not output.is_table:
            print_objects(jobs, output, as_list=len(names) > 1)
        elif jobs:
            session = sessions[names[0]]
            places = session.places(jobs)
            _print_rows([views.row(job, session.now(), places) for job in jobs], output)
            if len(names) == 1:
                print_lines(views.shard_lines(jobs[0], session.now()))
                print_lines(views.problem_lines(jobs[0]))
            suggest(f"di describe {names[0]}", f"di logs {names[0]}")
        if missing:
            raise joined(missing)


def _named(sessions: Mapping[str, Session]) -> tuple[list[dict[str, Any]], list[CommandError]]:
    """Return the jobs by their names, and the errors of those that cannot be read."""
    jobs, missing = [], []
    for name, session in sessions.items():
        try:
            jobs.append(session.job(name))
        except ApiError as error:
            if len(sessions) == 1:
                raise
            missing.append(from_api(error))
    return jobs, missing


def _print_rows(shown: Sequence[Row], output: Output, *, namespace: bool = False) -> None:
    print_table(jobs_table(shown, wide=output is Output.WIDE, namespace=namespace))


def _follow_rows(
    session: Session,
    namespace: str | None,
    name: str | None,
    output: Output,
    *,
    selector: str | None = None,
    wanted: Wanted = _ALL,
) -> None:
    """Print a line for each job, and again when its content has changed."""
    wide, of_all = output is Output.WIDE, namespace is None
    lines = Growing(coloured=in_colour(), width=terminal_width())
    shown: dict[tuple[str, str], Any] = {}
    for found in follow(session, namespace=namespace, name=name, selector=selector):
        now = session.now()
        jobs = {key: job for key, job in sorted(found.items()) if wanted.includes(job, now)}
        rows = [views.row(job, now) for job in jobs.values()]
        changed = []
        for number, (key, row) in enumerate(zip(jobs, rows, strict=True)):
            # A changed age alone is no change.
            news = (row.phase, row.ready, row.progress, row.restarts, row.reschedules, row.reason)
            if shown.get(key) != news:
                shown[key] = news
                changed.append(number)
        if not output.is_table:
            for number in changed:
                print_objects([[*jobs.values()][number]], output, as_list=False)
        elif changed:
            print_text(lines.draw(jobs_table(rows, wide=wide, namespace=of_all), changed))
        for key in shown.keys() - found.keys():
            del shown[key]
            print_lines([f"{key[1]} was deleted"])
