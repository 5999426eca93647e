"""Sweeps: their manifests, and their creation in a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from di_api.field_error import InvalidSpec, mapping
from di_api.names import SWEEP_KIND
from di_api.sweeps import SweepSpec, load_sweep
from di_cli.actions.manifest import documents_of
from di_cli.edits.manifests import ManifestError
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.session import Session
from di_kube.errors import NotFound
from di_kube.resources import DISWEEPS

Object = dict[str, Any]


def sweep_in(file: str) -> Object:
    """Return the only sweep of a file. Raises CommandError."""
    try:
        found = [each for each in documents_of(file) if isinstance(each, dict)]
    except ManifestError as error:
        raise CommandError("there is no sweep", where=str(error)) from error
    sweeps = [each for each in found if each.get("kind") == SWEEP_KIND]
    if len(sweeps) != 1:
        raise CommandError(f"{file} has {len(sweeps)} documents of kind {SWEEP_KIND}, not one")
    return sweeps[0]


@contextmanager
def program_file(manifest: Object) -> Iterator[str]:
    """Yield a file with the manifest of a program's sweep, which exists until the end."""
    with TemporaryDirectory(prefix="di-sweep-") as folder:
        path = Path(folder) / "sweep.yaml"
        path.write_text(json.dumps(manifest))
        yield str(path)


def with_parallelism(manifest: Mapping[str, Any], parallelism: int | None) -> Object:
    """Return a sweep with another number of trials at the same time; None: with its own."""
    if parallelism is None:
        return dict(manifest)
    return {**manifest, "spec": {**mapping(manifest.get("spec")), "parallelism": parallelism}}


def checked(manifest: Mapping[str, Any]) -> SweepSpec:
    """Return the spec of a sweep. Raises CommandError with a line for each fault."""
    try:
        return load_sweep(manifest)
    except InvalidSpec as error:
        raise CommandError(
            "the sweep breaks rules",
            where="\n".join(map(str, error.errors)),
            remedy="docs/how-to/sweeps.md has the fields",
        ) from error


def create_sweep(session: Session, manifest: Object) -> Object:
    """Create a sweep in the namespace of its manifest, else of the session; return it."""
    checked(manifest)
    place = str(manifest["metadata"].get("namespace") or session.namespace)
    with where_sweeps_run():
        return session.client.create(DISWEEPS, manifest, place, strict=True)


def stop_sweep(session: Session, name: str) -> Object:
    """Stop all trials of a sweep for good; return the sweep. Raises NotFound."""
    with where_sweeps_run():
        session.client.get(DISWEEPS, name, session.namespace)
    return session.client.patch(DISWEEPS, name, {"spec": {"stop": True}}, session.namespace)


@contextmanager
def where_sweeps_run() -> Iterator[None]:
    """Convert the API server's answer that it does not serve the kind."""
    try:
        yield
    except NotFound as error:
        raise CommandError(
            "this cluster runs no sweeps",
            where=str(error),
            remedy="on this machine: di sweep -f FILE --local; an administrator switches them on "
            "with operator.sweeps=true",
            code=ExitCode.NOT_FOUND,
        ) from error
