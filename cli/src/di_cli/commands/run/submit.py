"""di submit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from di_cli.commands.manifest import complete_manifest, documents_of
from di_cli.commands.options import Context, Namespace
from di_cli.edits.manifests import (
    Changes,
    ManifestError,
    changed,
    jobs_of,
    parse_images,
    parse_replicas,
)
from di_cli.errors import CommandError, from_api
from di_cli.exit_codes import ExitCode
from di_cli.output import say, suggest
from di_cli.session import Session, open_session
from di_kube.errors import ApiError
from di_kube.resources import DIJOBS, Resource


class DryRun(StrEnum):
    """Whether the job is stored."""

    NONE = "none"
    SERVER = "server"


def submit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|EXAMPLE...",
            help="Manifests of DIJobs, or names of examples; - is stdin.",
            autocompletion=complete_manifest,
        ),
    ],
    *,
    name: Annotated[str | None, typer.Option(help="Name of the job in place of its own.")] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="[TASK=]IMAGE", help="Image of all tasks, or of one; repeatable."),
    ] = None,
    replicas: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK=COUNT", help="Replicas of a task; repeatable."),
    ] = None,
    dry_run: Annotated[
        DryRun, typer.Option(help="server: check everything, and store nothing.")
    ] = DryRun.NONE,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Submit jobs; all files are read before the first is submitted."""
    try:
        changes = Changes(
            name=name,
            images=parse_images(image or ()),
            replicas=parse_replicas(replicas or ()),
        )
        jobs = [
            (file, changed(job, changes))
            for file in files
            for job in jobs_of(documents_of(file), file)
        ]
    except ManifestError as error:
        raise CommandError(
            "nothing was submitted", where=str(error), remedy="di submit --help"
        ) from error
    if not jobs:
        raise CommandError(f"there is no DIJob in {', '.join(files)}")
    if name is not None and len(jobs) > 1:
        raise CommandError(f"{len(jobs)} jobs cannot all have the name {name}", code=ExitCode.USAGE)
    with open_session(namespace, context) as session:
        names = [_create(session, file, job, dry_run is DryRun.SERVER) for file, job in jobs]
    if dry_run is DryRun.NONE:
        suggest(f"di watch {names[0]}", f"di logs {names[0]} -f", f"di why {names[0]}")


def _create(session: Session, file: str, job: dict[str, Any], dry_run: bool) -> str:
    metadata = job.get("metadata") or {}
    version = str(job["apiVersion"]).partition("/")[2]
    resource = Resource(group=DIJOBS.group, version=version, plural=DIJOBS.plural, kind=DIJOBS.kind)
    namespace = metadata.get("namespace") or session.namespace
    what = f"{file}: DIJob {namespace}/{metadata.get('name') or metadata.get('generateName')}"
    try:
        made = session.client.create(resource, job, namespace, dry_run=dry_run)
    except ApiError as error:
        raise from_api(error, what) from error
    name = str(made["metadata"]["name"])
    say(f"dijob/{name} {'would be taken (dry run)' if dry_run else 'submitted'}")
    return name
