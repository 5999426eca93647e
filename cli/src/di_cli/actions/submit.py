"""Creation of a job from a manifest, with the ConfigMaps of its code if the manifest has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from di_api.code_names import ANNOTATION_CODE_SOURCE, LABEL_CODE_OF
from di_api.field_error import mapping
from di_cli.code.bundle import bundle_in
from di_cli.code.start import start
from di_cli.code.submission import FOLDER, Stored, config_map_names, parts_of
from di_cli.documents import numbered
from di_cli.edits.manifests import ManifestError, jobs_of
from di_cli.errors import CommandError
from di_cli.session import Session

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A job of a manifest.

    Attributes:
        source: where the manifest is from, for errors.
        config_maps: of its code; none: the job has no code, or they exist already.
    """

    job: Object
    source: str
    config_maps: tuple[Object, ...] = ()

    def changed(self, change: Callable[[Object], Object]) -> Kept:
        """Return the job with changes."""
        return replace(self, job=change(self.job))

    def objects(self) -> list[Object]:
        """Return the objects of the manifest."""
        return [self.job, *self.config_maps]


def kept_in(documents: Iterable[object], source: str) -> list[Kept]:
    """Return the jobs in a file's documents, each with the ConfigMaps of its code.

    Raises ManifestError for any other object.
    """
    others: list[object] = []
    code: dict[str, Object] = {}
    for _, each in numbered(documents):
        is_code = isinstance(each, dict) and each.get("kind") == "ConfigMap"
        metadata = mapping(each.get("metadata")) if isinstance(each, dict) else {}
        if isinstance(each, dict) and is_code and LABEL_CODE_OF in mapping(metadata.get("labels")):
            code[str(metadata.get("name"))] = each
        else:
            others.append(each)
    found = [
        Kept(
            job=job,
            source=source,
            config_maps=tuple(code[each] for each in _code_of(job) if each in code),
        )
        for job in jobs_of(others, source)
    ]
    if unused := code.keys() - {name for each in found for name in _code_of(each.job)}:
        raise ManifestError(f"{source}: no DIJob there has ConfigMap {min(unused)} as its code")
    return found


def submit(session: Session, kept: Kept, *, dry_run: bool = False) -> Object:
    """Create a job, and the ConfigMaps of its code if they are here; return the job.

    Args:
        dry_run: check the job and store nothing.

    Raises:
        CommandError: it was refused.
    """
    if not kept.config_maps or dry_run:
        namespace = mapping(kept.job.get("metadata")).get("namespace")
        return session.create_job(
            kept.job, namespace=namespace, source=kept.source, dry_run=dry_run
        )
    code = kept.job["spec"]["code"]
    bundle = bundle_in(kept.config_maps, str(code.get("sha256")))
    if bundle is None:
        raise CommandError(
            f"{kept.source}: ConfigMap {', '.join(_code_of(kept.job))} has no bundle with the hash "
            "in spec.code.sha256",
            where="nothing was submitted",
            remedy="di submit PROGRAM --dry-run client -o yaml writes both again",
        )
    metadata = mapping(kept.config_maps[0].get("metadata"))
    annotations = mapping(metadata.get("annotations"))

    def job(stored: Stored) -> Object:
        spec = kept.job["spec"]
        others = {key: value for key, value in code.items() if key != "parts"}
        own = {"configMap": stored.config_map, **parts_of(bundle)}
        return {**kept.job, "spec": {**spec, "code": {**others, **own}}}

    return start(session, job, bundle, str(annotations.get(ANNOTATION_CODE_SOURCE) or FOLDER))


def _code_of(job: Object) -> list[str]:
    return config_map_names(mapping(mapping(job.get("spec")).get("code")))
