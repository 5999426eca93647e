"""di sweep."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from di_api.field_error import InvalidSpec
from di_api.names import SWEEP_KIND
from di_api.sweeps import load_sweep
from di_cli.actions.manifest import documents_of
from di_cli.commands.run.local import run
from di_cli.edits.manifests import ManifestError
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import Output, print_table, print_value, say, suggest
from di_cli.render.table import Table
from di_cli.views import sweep as views

Object = dict[str, Any]


def sweep(
    file: Annotated[
        str,
        typer.Option("--file", "-f", metavar="FILE", help="Manifest of a DISweep; - is stdin."),
    ],
    *,
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
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Output format of --dry-run.")
    ] = Output.TABLE,
) -> None:
    """Run a sweep: trials of one job with other parameters, of which the best continue."""
    if local == dry_run:
        raise CommandError(
            "a sweep runs on this machine, or is only listed",
            where="exactly one of --local and --dry-run",
            remedy=f"di sweep -f {file} --dry-run",
            code=ExitCode.USAGE,
        )
    if local:
        words = [] if parallelism is None else ["--parallelism", str(parallelism)]
        run([file, *words])
    manifest = _read(file)
    try:
        spec = load_sweep(manifest)
    except InvalidSpec as error:
        raise CommandError(
            "the sweep breaks rules",
            where="\n".join(map(str, error.errors)),
            remedy="docs/how-to/sweeps.md has the fields",
        ) from error
    found = views.first_trials(manifest, spec, trials)
    if not output.is_table:
        print_value(found, output)
        return
    print_table(Table(header=views.header(found), rows=[views.row(each) for each in found]))
    size = views.size(spec)
    say(f"{len(found)} of {size} trials, {min(spec.parallelism, size)} at a time")
    suggest(f"di sweep -f {file} --local")


def _read(file: str) -> Object:
    try:
        found = [each for each in documents_of(file) if isinstance(each, dict)]
    except ManifestError as error:
        raise CommandError("there is no sweep", where=str(error)) from error
    sweeps = [each for each in found if each.get("kind") == SWEEP_KIND]
    if len(sweeps) != 1:
        raise CommandError(f"{file} has {len(sweeps)} documents of kind {SWEEP_KIND}, not one")
    return sweeps[0]
