"""di submit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from di_cli.actions.job_templates import template as read_template
from di_cli.actions.manifest import complete_manifest, documents_of
from di_cli.actions.program import Program, is_program, prepared
from di_cli.actions.submit import Kept, kept_in
from di_cli.actions.submit import submit as create
from di_cli.code.bundle import MOST_IN_PARTS, kib
from di_cli.code.claims import claim_for
from di_cli.code.start import start
from di_cli.code.submission import Stored, config_map_name, config_maps
from di_cli.commands.observe.logs import follow_job
from di_cli.commands.options import Context, Namespace, Store
from di_cli.edits.job_templates import with_template
from di_cli.edits.manifests import (
    Changes,
    ManifestError,
    changed,
    parse_images,
    parse_replicas,
)
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import print_manifests, say, suggest
from di_cli.session import Session, open_session

Object = dict[str, Any]


class DryRun(StrEnum):
    """False if the job is only validated, not stored."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


class Manifest(StrEnum):
    """Format of a manifest."""

    YAML = "yaml"
    JSON = "json"


def submit(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|EXAMPLE|PROGRAM|FOLDER...",
            help="Manifests of DIJobs (- is stdin), names of examples, or one program or folder, "
            "whose arguments follow after --.",
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
    entry: Annotated[
        str | None, typer.Option(metavar="FILE", help="File of a folder that is started.")
    ] = None,
    requirements: Annotated[
        str | None,
        typer.Option("--with", metavar="FILE", help="Requirements of a program, for pip."),
    ] = None,
    learners: Annotated[int, typer.Option(min=0, help="Learners of a program.")] = 1,
    collectors: Annotated[int, typer.Option(min=0, help="Collectors of a program.")] = 0,
    evaluators: Annotated[int, typer.Option(min=0, help="Evaluators of a program.")] = 0,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each learner of a program.")] = 0,
    artifacts: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM[:PATH]",
            help="Claim with a folder for each pod of a program, at PATH, or else /results.",
        ),
    ] = None,
    store: Store = None,
    track: Annotated[
        bool,
        typer.Option(
            "--track",
            help="Report what a program logs to TensorBoard, Weights & Biases or MLflow.",
        ),
    ] = False,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="TEMPLATE",
            help="Defaults from a DIJobTemplate of the namespace or cluster; see di templates.",
        ),
    ] = None,
    dry_run: Annotated[
        DryRun,
        typer.Option(
            help="server: check everything, and store nothing; client: only print the manifest."
        ),
    ] = DryRun.NONE,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Show logs and progress until the job ends; Ctrl-C leaves the job alone.",
        ),
    ] = False,
    output: Annotated[
        Manifest, typer.Option("--output", "-o", help="Format of --dry-run client.")
    ] = Manifest.YAML,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Submit jobs, of manifests or of a program; all files are read before the first is
    submitted.
    """
    changes = _changes(name, image, replicas)
    if follow and dry_run is not DryRun.NONE:
        raise CommandError("--follow goes without --dry-run", code=ExitCode.USAGE)
    found = None if template is None else _read_template(template, namespace, context)
    if is_program(files, entry):
        program = Program(
            path=Path(files[0]),
            arguments=files[1:],
            entry=entry,
            requirements=requirements,
            counts={"learner": learners, "collector": collectors, "evaluator": evaluators},
            gpus=gpus,
            name=name,
            template=found,
            is_tracked=track,
            artifacts=artifacts,
        )
        submitted = _submit_program(
            program,
            changes,
            dry_run=dry_run,
            output=output,
            store=store,
            namespace=namespace,
            context=context,
        )
        _after(submitted, namespace, context, follow=follow)
        return
    others = (requirements, artifacts, store, track, gpus, collectors, evaluators)
    if any(others) or learners != 1:
        raise CommandError(
            "--with, --artifacts, --track, --gpus, --learners, --collectors, --evaluators and "
            "--store are for a program or folder",
            remedy=f"di submit {files[0]} --replicas collector=4 changes a manifest",
            code=ExitCode.USAGE,
        )
    try:
        jobs = [
            kept.changed(lambda job: changed(_merged(job, found), changes))
            for file in files
            for kept in kept_in(documents_of(file), file)
        ]
    except ManifestError as error:
        raise _not_submitted(error) from error
    if not jobs:
        raise CommandError(f"there is no DIJob in {', '.join(files)}")
    if name is not None and len(jobs) > 1:
        raise CommandError(f"{len(jobs)} jobs cannot all have the name {name}", code=ExitCode.USAGE)
    if follow and len(jobs) > 1:
        raise CommandError(
            f"--follow is for one job, and there are {len(jobs)}", code=ExitCode.USAGE
        )
    if dry_run is DryRun.CLIENT:
        whole = [each for kept in jobs for each in kept.objects()]
        print_manifests(whole, as_json=output is Manifest.JSON)
        return
    with open_session(namespace, context) as session:
        names = [_create(session, kept, dry_run is DryRun.SERVER) for kept in jobs]
    if dry_run is DryRun.NONE:
        own = (jobs[0].job.get("metadata") or {}).get("namespace")
        _after(names[0], own or namespace, context, follow=follow)


def _read_template(name: str, namespace: str | None, context: str | None) -> Object:
    with open_session(namespace, context) as session:
        return read_template(session, name)


def _merged(job: Object, template: Object | None) -> Object:
    return job if template is None else with_template(job, template)


def _submit_program(
    program: Program,
    changes: Changes,
    *,
    dry_run: DryRun,
    output: Manifest,
    store: str | None,
    namespace: str | None,
    context: str | None,
) -> str | None:
    """Submit the job of a program; return its name, or None if none was stored."""
    found = prepared(program)

    def job(stored: Stored) -> dict[str, Any]:
        return changed(found.job(stored), changes)

    try:
        name = str(job(Stored())["metadata"]["name"])
    except ManifestError as error:
        raise _not_submitted(error) from error
    if dry_run is DryRun.CLIENT:
        if found.bundle.is_large:
            raise CommandError(
                f"a manifest has {kib(MOST_IN_PARTS)} KiB of code at most, and the files have "
                f"{kib(len(found.bundle.packed))} KiB when compressed",
                where=found.bundle.largest,
                remedy="leave out data with a file .diignore; without --dry-run the code goes to "
                "a claim",
            )
        stored = Stored(config_map=config_map_name(name, found.bundle))
        whole = [job(stored), *config_maps(stored, name, found.bundle, found.source)]
        print_manifests(whole, as_json=output is Manifest.JSON)
        return None
    with open_session(namespace, context) as session:
        if dry_run is DryRun.SERVER:
            stored = Stored(claim=claim_for(session, found.bundle, store))
            _create(session, Kept(job=job(stored), source=str(program.path)), True)
            return None
        start(session, job, found.bundle, found.source, store)
    say(f"dijob/{name} submitted")
    return name


def _changes(name: str | None, images: list[str] | None, replicas: list[str] | None) -> Changes:
    try:
        return Changes(
            name=name,
            images=parse_images(images or ()),
            replicas=parse_replicas(replicas or ()),
        )
    except ManifestError as error:
        raise _not_submitted(error) from error


def _not_submitted(error: ManifestError) -> CommandError:
    return CommandError("nothing was submitted", where=str(error), remedy="di submit --help")


def _after(name: str | None, namespace: str | None, context: str | None, *, follow: bool) -> None:
    """Follow a submitted job to its end, or suggest what to do next."""
    if name is not None and follow:
        follow_job(name, namespace, context)
    elif name is not None:
        suggest(f"di watch {name}", f"di logs {name} -f", f"di why {name}")


def _create(session: Session, kept: Kept, dry_run: bool) -> str:
    name = str(create(session, kept, dry_run=dry_run)["metadata"]["name"])
    say(f"dijob/{name} {'would be taken (dry run)' if dry_run else 'submitted'}")
    return name
