"""di sweep."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from di_api.names import LABEL_SWEEP
from di_api.sweeps import SweepSpec
from di_api.sweeps.spec import Goal
from di_cli.actions.sweep import (
    checked,
    create_sweep,
    program_file,
    stop_sweep,
    sweep_in,
    where_sweeps_run,
    with_parallelism,
)
from di_cli.commands.options import Context, Namespace
from di_cli.commands.run.local import run
from di_cli.edits.program_sweeps import Search, sweep_of_program
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import Output, print_table, print_value, say, suggest
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views import sweep as views
from di_kube.resources import DISWEEPS

Object = dict[str, Any]
_PROGRAM: Final = ".py"
_RETURN: Final = "return"
"""The return of an episode, however a program names it."""
STOP: Final = "stop"
"""First word of the command that stops a sweep."""


def sweep(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROGRAM.py -- ARGUMENTS | NAME | stop NAME]",
            help="A program, with ranges and lists to search as its arguments (--lr 1e-5..1:log, "
            "--layers 1..4:1, --optimizer adam,sgd). Or the sweep of the cluster whose trials are "
            "shown, or that is stopped for good.",
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
    trials: Annotated[
        int,
        typer.Option(
            min=1, help="Number of trials of a program, or of a manifest that --dry-run lists."
        ),
    ] = 10,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Objective of the trials of a program. [default: return]",
        ),
    ] = None,
    minimize: Annotated[
        bool, typer.Option("--minimize", help="The smallest objective is the best one.")
    ] = False,
    first_step: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="STEP",
            help="Stop trials of a program that are behind at this step, at three times as many, "
            "and so on. [default: all run to their end]",
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Image that has the program, for the cluster."),
    ] = None,
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
    is_program = file is None and bool(given) and given[0].endswith(_PROGRAM)
    if not is_program and (metric is not None or minimize or first_step or image is not None):
        raise _usage("--metric, --minimize, --first-step and --image are for a program")
    if file is None and not is_program:
        if local or dry_run or parallelism is not None:
            raise _usage("--local, --dry-run and --parallelism are for a program or a manifest")
        if given[1:] and (given[0] != STOP or given[2:]):
            raise _usage("di sweep takes one NAME, or stop and a NAME")
        with open_session(namespace, context) as session:
            if given[1:]:
                stop_sweep(session, given[1])
                say(f"disweep/{given[1]} stopped")
            else:
                _show(session, given[0] if given else None, output)
        return
    if (file is not None and given) or (local and dry_run):
        raise _usage("a sweep runs in the cluster, with --local here, or is listed by --dry-run")
    if is_program:
        search = Search(
            metric=metric or _RETURN,
            goal=Goal.MINIMIZE if minimize else Goal.MAXIMIZE,
            trials=trials,
            first_step=first_step,
            image=image,
        )
        found = sweep_of_program(given[0], given[1:], search)
        _check_program(given[0], found, needs_image=not (local or dry_run or image))
        if local:
            with program_file(found) as path:
                _run_here(path, parallelism, folder=".")
    else:
        assert file is not None, "otherwise the sweeps of the cluster are shown"
        if local:
            _run_here(file, parallelism)
        found = sweep_in(file)
    manifest = with_parallelism(found, parallelism)
    if dry_run:
        _list_first(manifest, checked(manifest), trials, output)
        return
    with open_session(namespace, context) as session:
        create_sweep(session, manifest)
    created = manifest["metadata"]["name"]
    say(f"disweep/{created} created")
    suggest(f"di sweep {created}", f"di list -l {LABEL_SWEEP}={created}")


def _run_here(file: str, parallelism: int | None, folder: str | None = None) -> None:
    words = [] if parallelism is None else ["--parallelism", str(parallelism)]
    run([file, *words, *([] if folder is None else ["--folder", folder])])


def _check_program(program: str, manifest: Object, *, needs_image: bool) -> None:
    """Refuse a sweep of a program without parameters, or for a cluster without an image."""
    if not manifest["spec"]["parameters"]:
        raise CommandError(
            f"no argument of {program} has a range or a list, so all trials would be equal",
            remedy=f"di sweep {program} --local -- --lr 1e-5..1e-2:log --optimizer adam,sgd",
            code=ExitCode.USAGE,
        )
    if needs_image:
        raise CommandError(
            f"the cluster has no {program}",
            remedy="name an image that has it with --image, or run the trials here with --local",
            code=ExitCode.USAGE,
        )
    checked(manifest)


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
