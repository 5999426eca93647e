"""di sweep."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from di_api.names import LABEL_SWEEP
from di_api.sweeps import SweepSpec
from di_cli.actions.sweep import (
    checked,
    create_sweep,
    stop_sweep,
    sweep_in,
    where_sweeps_run,
    with_parallelism,
)
from di_cli.commands.options import Context, Namespace
from di_cli.commands.run.local import run
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import Output, print_table, print_value, say, suggest
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views import sweep as views
from di_kube.resources import DISWEEPS

Object = dict[str, Any]
STOP: Final = "stop"
"""First word of the command that stops a sweep."""


def sweep(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | stop NAME]",
            help="Sweep of the cluster whose trials are shown, or that is stopped for good.",
        ),
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Manifest of a DISweep; - is stdin."),
    ] = None,
    local: Annotated[
        bool,
        typer.Option(
            "--local", help="Run the trials as processes of this machine, as di run does."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the first trials and their parameters.")
    ] = False,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials that --dry-run lists.")] = 10,
    parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="Trials at the same time, in place of the manifest's number."),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TABLE,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Run a sweep: trials of one job with other parameters, of which the best continue; without a
    file list the sweeps of the cluster, or the trials of one.
    """
    given = words or []
    if file is None:
        if local or dry_run or parallelism is not None:
            raise _usage("--local, --dry-run and --parallelism are for a manifest")
        if given[1:] and (given[0] != STOP or given[2:]):
            raise _usage("di sweep takes one NAME, or stop and a NAME")
        with open_session(namespace, context) as session:
            if given[1:]:
                stop_sweep(session, given[1])
                say(f"disweep/{given[1]} stopped")
            else:
                _show(session, given[0] if given else None, output)
        return
    if given or (local and dry_run):
        raise _usage("a manifest is run in the cluster, with --local here, or listed by --dry-run")
    if local:
        words = [] if parallelism is None else ["--parallelism", str(parallelism)]
        run([file, *words])
    manifest = with_parallelism(sweep_in(file), parallelism)
    if dry_run:
        _list_first(manifest, checked(manifest), trials, output)
        return
    with open_session(namespace, context) as session:
        create_sweep(session, manifest)
    created = manifest["metadata"]["name"]
    say(f"disweep/{created} created")
    suggest(f"di sweep {created}", f"di list -l {LABEL_SWEEP}={created}")


def _usage(where: str) -> CommandError:
    return CommandError(
        "these arguments do not go together",
        where=where,
        remedy="di sweep --help",
        code=ExitCode.USAGE,
    )


def _list_first(manifest: Object, spec: SweepSpec, trials: int, output: Output) -> None:
    found = views.first_trials(manifest, spec, trials)
    if not output.is_table:
        print_value(found, output)
        return
    print_table(Table(header=views.header(found), rows=[views.row(each) for each in found]))
    size = views.size(spec)
    say(f"{len(found)} of {size} trials, {min(spec.parallelism, size)} at a time")


def _show(session: Session, name: str | None, output: Output) -> None:
    """Print the sweeps of a namespace, or the trials of one."""
    if name is None:
        with where_sweeps_run():
            found = session.client.list(DISWEEPS, session.namespace)[0]
        if not output.is_table:
            print_value([dict(each) for each in found], output)
        elif found:
            rows = [views.sweep_row(each) for each in found]
            print_table(Table(header=views.SWEEPS, rows=rows))
        else:
            say(f"there are no sweeps in namespace {session.namespace}")
        return
    manifest = session.client.get(DISWEEPS, name, session.namespace)
    spec = checked(manifest)
    jobs = session.jobs(selector=f"{LABEL_SWEEP}={name}")
    rows = views.trial_rows(jobs, spec, session.now())
    if output.is_table:
        print_table(Table(header=views.trials_header(spec), rows=rows))
    else:
        print_value([dict(each) for each in jobs], output)
