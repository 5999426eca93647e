"""di simulate."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from di_api.spec.job import Priority
from di_cli.actions.manifest import complete_manifest, documents_of
from di_cli.commands.options import Context, Namespace, Policy, System
from di_cli.edits.assignments import AssignmentError, assigned
from di_cli.edits.manifests import ManifestError, jobs_of
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.forecasting import check_installed, read_allocator
from di_cli.forecasting import simulate as try_job
from di_cli.output import Output, print_lines, print_value, suggest
from di_cli.present import read_present
from di_cli.render.table import printable
from di_cli.session import open_session
from di_cli.views.simulation import as_json, lines

Object = dict[str, Any]


class _Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


_FORMS: Final = {_Form.JSON: Output.JSON, _Form.YAML: Output.YAML}


def simulate(
    file: Annotated[
        str,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE|EXAMPLE",
            help="Manifest of a DIJob, or name of an example; - is stdin.",
            autocompletion=complete_manifest,
        ),
    ],
    *,
    priority: Annotated[
        Priority | None, typer.Option(help="Priority in place of the job's own.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Change a field of the spec first; repeatable."
        ),
    ] = None,
    policy: Policy = None,
    system: System = None,
    namespace: Namespace = None,
    context: Context = None,
    output: Annotated[_Form, typer.Option("--output", "-o", help="Output format.")] = _Form.TEXT,
) -> None:
    """Show whether a job would fit now; where, at whose expense, or when. Nothing is created."""
    check_installed("di simulate")
    job = _job(file, [*(settings or ()), *([f"priority={priority.value}"] if priority else ())])
    with open_session(namespace, context) as session:
        present = read_present(session)
        if not present.nodes:
            raise CommandError(
                "without the cluster's nodes nothing can be said",
                where="you may not list nodes" if "nodes" in present.unread else "there are none",
                remedy="kubectl auth can-i list nodes",
                code=ExitCode.NOT_ALLOWED if "nodes" in present.unread else ExitCode.FAILED,
            )
        found = try_job(session, job, present, read_allocator(session, system, policy))
    if output is not _Form.TEXT:
        print_value(as_json(found), _FORMS[output])
        return
    print_lines(printable(line) for line in lines(found))
    suggest(f"di submit {file}", "di queue", "di allocation")


def _job(file: str, settings: list[str]) -> Object:
    try:
        jobs = jobs_of(documents_of(file), file)
        if len(jobs) != 1:
            raise ManifestError(f"{file} has {len(jobs)} jobs; one is tried at a time")
        return assigned(jobs[0], settings)
    except (AssignmentError, ManifestError) as error:
        raise CommandError(
            "nothing was tried", where=str(error), remedy="di simulate --help"
        ) from error
