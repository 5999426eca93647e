"""di run: a job as processes on this machine, by the package di-local."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from di_cli.errors import CommandError, from_clone


def run(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB.YAML [OPTIONS]", help="See di run --help."),
    ] = None,
) -> None:
    """Run a job as processes on this machine, without any cluster."""
    if find_spec("di_local") is None:
        raise CommandError(
            "di run needs the package di-local, which is not installed",
            remedy=f"{from_clone('local')}; with a cluster: di submit",
        )
    words = ["run", *(arguments or ())]
    # Before the packages are imported that run a job, which takes seconds: --help ends here.
    import_module("di_local.arguments").read_arguments(words)
    raise typer.Exit(import_module("di_local.main").main(words))
