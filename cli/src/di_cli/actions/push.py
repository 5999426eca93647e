"""Delivery of changed code to a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from di_api.code_names import ANNOTATION_CODE_SOURCE
from di_api.field_error import mapping
from di_api.phase import Phase
from di_cli.actions.program import bundle_of, requirements_of
from di_cli.code.bundle import hash_of
from di_cli.code.files import Taken, take
from di_cli.code.start import push as push_code
from di_cli.code.submission import (
    FOLDER,
    changes,
    config_map_names,
    files_in,
    started_files,
)
from di_cli.errors import CommandError
from di_cli.session import Session
from di_kube.errors import NotFound
from di_kube.resources import CONFIGMAPS

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The result of a push.

    Attributes:
        restarts: whether the pods restart; otherwise the job has this code already.
        is_suspended: whether they start only when the job is resumed.
        changed: paths that differ from the code before.
    """

    restarts: bool
    is_suspended: bool
    changed: list[str]


def push(
    session: Session,
    name: str,
    path: str | None,
    requirements: str | None,
    store: str | None = None,
) -> Pushed:
    """Send a program or folder to a job.

    Args:
        path: None: the same program or folder as before, from the working directory.
        requirements: path of the file; None: the same as before.
        store: claim for code that ConfigMaps cannot hold; None: the same as before, or that of the
            namespace.

    Raises:
        CommandError: the job cannot have this code.
    """
    job = session.job(name)
    code = _code(job, name)
    before = _config_maps(session, code)
    known = files_in(before)
    given = Path(path or _source(before, name))
    needed = requirements or code.get("requirements")
    taken = _taken(given, needed)
    _check_entry(job, name, given, known, taken)
    restarts = push_code(
        session,
        job,
        bundle_of(taken),
        source=FOLDER if given.is_dir() else given.name,
        requirements=requirements_of(given, needed, taken),
        revision=taken.revision,
        claim=store,
    )
    return Pushed(
        restarts=restarts,
        is_suspended=job["spec"].get("suspend") is True,
        changed=changes(known, {file: hash_of(each.content) for file, each in taken.files.items()}),
    )


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


def _config_maps(session: Session, code: Object) -> list[Object]:
    """Return the ConfigMaps of the present code; none if one is gone."""
    try:
        return [
            session.client.get(CONFIGMAPS, name, session.namespace)
            for name in config_map_names(code)
        ]
    except NotFound:
        return []


def _source(config_maps: Sequence[Object], name: str) -> str:
    metadata = mapping(config_maps[0].get("metadata")) if config_maps else {}
    annotations = mapping(metadata.get("annotations"))
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


def _check_entry(job: Object, name: str, path: Path, known: dict[str, str], taken: Taken) -> None:
    """Refuse files without those that the job starts: it is another folder."""
    if missing := sorted(started_files(job, known) - taken.files.keys()):
        raise CommandError(
            f"{path} has no {', '.join(missing)}, which dijob/{name} starts",
            where="nothing was pushed",
            remedy=f"di push {name} PATH, with the folder or program that was submitted",
        )
