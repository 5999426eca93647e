"""di push."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from di_api.field_error import mapping
from di_api.names import ANNOTATION_CODE_SOURCE
from di_api.phase import Phase
from di_cli.code.files import Taken, take
from di_cli.code.start import push as push_code
from di_cli.code.submission import FOLDER, changes, files_in, started_files
from di_cli.commands.options import Context, JobName, Namespace
from di_cli.commands.run.program import bundle_of, requirements_of
from di_cli.errors import CommandError
from di_cli.output import say, suggest
from di_cli.session import Session, open_session
from di_kube.errors import NotFound
from di_kube.resources import CONFIGMAPS

Object = dict[str, Any]
_SHOWN = 5


def push(
    name: JobName,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROGRAM|FOLDER]",
            help="What to send; absent: the same program or folder as before, from here.",
        ),
    ] = None,
    *,
    requirements: Annotated[
        str | None,
        typer.Option("--with", metavar="FILE", help="Requirements; absent: the same as before."),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Send changed code to a job and restart its pods; no restart is counted."""
    with open_session(namespace, context) as session:
        job = session.job(name)
        code = _code(job, name)
        before = _config_map(session, code)
        known = files_in(before)
        given = Path(path or _source(before, name))
        needed = requirements or code.get("requirements")
        taken = _taken(given, needed)
        _check_entry(job, name, given, known, taken)
        bundle = bundle_of(taken)
        restarts = push_code(
            session,
            job,
            bundle,
            source=FOLDER if given.is_dir() else given.name,
            requirements=requirements_of(given, needed, taken),
            revision=taken.revision,
        )
    if not restarts:
        say(f"dijob/{name} has this code already")
        return
    changed = changes(known, {file: each.content for file, each in taken.files.items()})
    listed = ", ".join(changed[:_SHOWN]) + (" and more" if len(changed) > _SHOWN else "")
    state = " when it is resumed" if job["spec"].get("suspend") is True else ""
    say(f"dijob/{name} restarts with new code{state}{f': {listed}' if changed else ''}")
    suggest(f"di logs {name} -f", f"di watch {name}")


def _code(job: Object, name: str) -> Object:
    """Return `spec.code` of a job that can change. Raises CommandError."""
    code = mapping(mapping(job.get("spec")).get("code"))
    phase = mapping(job.get("status")).get("phase")
    if not code:
        raise CommandError(
            f"dijob/{name} has no spec.code: its program is in its image",
            remedy="di submit PROGRAM makes a job with code; di restart pulls an image again",
        )
    if phase in (Phase.SUCCEEDED, Phase.FAILED):
        raise CommandError(
            f"dijob/{name} is {phase}, and its spec cannot change",
            remedy=f"di delete {name}; then di submit",
        )
    return dict(code)


def _config_map(session: Session, code: Object) -> Object:
    """Return the ConfigMap of the present code; empty if it is gone."""
    try:
        found: Object = session.client.get(CONFIGMAPS, str(code["configMap"]), session.namespace)
    except NotFound:
        return {}
    return found


def _source(config_map: Object, name: str) -> str:
    annotations = mapping(mapping(config_map.get("metadata")).get("annotations"))
    source = annotations.get(ANNOTATION_CODE_SOURCE)
    # Other clients can write it, so it names nothing outside this folder.
    if not isinstance(source, str) or source != (Path(source).name or FOLDER):
        raise CommandError(
            f"it is unknown from where dijob/{name} got its code",
            remedy=f"di push {name} PROGRAM, or a FOLDER",
        )
    if not Path(source).exists():
        raise CommandError(
            f"there is no {source} here, from which dijob/{name} got its code",
            remedy=f"di push {name} PATH",
        )
    return source


def _taken(path: Path, requirements: str | None) -> Taken:
    if not path.exists():
        raise CommandError(f"there is no file or folder {path}")
    beside = None
    if requirements is not None and not path.is_dir():
        beside = Path(requirements) if Path(requirements).is_file() else path.parent / requirements
    return take(path, requirements=beside)


def _check_entry(job: Object, name: str, path: Path, known: dict[str, bytes], taken: Taken) -> None:
    """Refuse files without those that the job starts: it is another folder."""
    if missing := sorted(started_files(job, known) - taken.files.keys()):
        raise CommandError(
            f"{path} has no {', '.join(missing)}, which dijob/{name} starts",
            where="nothing was pushed",
            remedy=f"di push {name} PATH, with the folder or program that was submitted",
        )
