"""di convert."""

from __future__ import annotations

from typing import Annotated

import typer

from di_cli.actions.manifest import documents_of
from di_cli.convert.fields import RefusedManifest
from di_cli.convert.manifests import converted
from di_cli.edits.manifests import ManifestError
from di_cli.errors import CommandError
from di_cli.output import Output, print_lines, print_value
from di_cli.render.table import printable


def convert(
    file: Annotated[
        str,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Manifests of other operators; - is stdin."
        ),
    ],
) -> None:
    """Convert manifests of other operators to DIJobs; comments name the fields without an equal."""
    try:
        found = list(converted(documents_of(file)))
    except ManifestError as error:
        raise CommandError("nothing was converted", where=str(error)) from error
    except RefusedManifest as error:
        raise CommandError(
            "nothing was converted",
            where=f"{error.place}: {error.reason}",
            remedy=error.remedy,
        ) from error
    if not found:
        raise CommandError(f"there is no manifest in {file}")
    for number, each in enumerate(found):
        if number:
            print_lines(["---"])
        print_lines(printable(f"# {note.path}: {note.why}") for note in each.comments)
        print_value(each.job, Output.YAML)
