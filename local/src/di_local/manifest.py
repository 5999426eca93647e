"""What `di run` is given, as objects of an API: a manifest, or a program and how often it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from di_api.conversion import VERSIONS, ConversionFailed, convert
from di_api.names import API_VERSION, DI_CONTAINER, GROUP, KIND, is_dns_label
from di_api.spec.task import TaskType
from di_kube.safe_yaml import BadYaml, load_documents

Object = dict[str, Any]
NAMESPACE: Final = "default"
_MAX_BYTES: Final = 3 << 20
_BESIDE: Final = ("ConfigMap", "Secret")
IMAGE: Final = "none"
"""Of jobs that are made of flags: they have commands and no image."""


class BadManifest(Exception):
    """It is not what a run is made of; the message says what and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The job, the ConfigMaps and Secrets that come with it, and where its programs start."""

    job: Object
    beside: Sequence[Object]
    directory: Path


def read_manifest(path: Path) -> Manifest:
    """Read one DIJob, and the ConfigMaps and Secrets beside it, from a YAML or JSON file; one of an
    older version becomes one of the newest.

    Raises:
        BadManifest: it cannot be read, or is something else.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise BadManifest(f"{path}: larger than {_MAX_BYTES} bytes, which no API server takes")
        documents = [each for each in load_documents(path.read_text()) if each is not None]
    except (OSError, UnicodeDecodeError, BadYaml) as error:
        raise BadManifest(f"{path}: {error}") from error
    for document in documents:
        if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
            raise BadManifest(f"{path}: a document is no object of Kubernetes")
        if not isinstance(document["metadata"].get("name"), str):
            raise BadManifest(f"{path}: {document.get('kind')}: metadata.name is missing")
        namespace = document["metadata"].get("namespace") or NAMESPACE
        if not is_dns_label(namespace):
            raise BadManifest(f"{path}: metadata.namespace: {namespace!r} is no DNS label")
    jobs = [each for each in documents if each.get("kind") == KIND]
    others = [each for each in documents if each.get("kind") != KIND]
    if len(jobs) != 1:
        raise BadManifest(f"{path}: {len(jobs)} documents of kind {KIND}, and one can run")
    for other in others:
        if other.get("kind") not in _BESIDE:
            raise BadManifest(
                f"{path}: {other.get('kind')} is nothing that a run here knows; "
                f"beside the {KIND} there can be {' and '.join(_BESIDE)}"
            )
    version = str(jobs[0].get("apiVersion"))
    if version not in VERSIONS:
        hint = f", not {version}" if version.startswith(GROUP) else f": apiVersion is {version}"
        raise BadManifest(f"{path}: jobs of {', '.join(VERSIONS)} run here{hint}")
    try:
        job = convert(jobs[0], API_VERSION)
    except ConversionFailed as error:
        raise BadManifest(f"{path}: {error}") from error
    return Manifest(
        job=_placed(job),
        beside=[_placed(each) for each in others],
        directory=path.resolve().parent,
    )


def made_of_flags(
    command: Sequence[str],
    *,
    counts: Mapping[TaskType, int],
    name: str,
    directory: Path,
) -> Manifest:
    """One program as a job: so many pods of each type run the same command."""
    container = {"name": DI_CONTAINER, "image": IMAGE, "command": list(command)}
    tasks = [
        {"type": str(kind), "replicas": count, "template": {"spec": {"containers": [container]}}}
        for kind, count in counts.items()
        if count
    ]
    job = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"tasks": tasks},
    }
    return Manifest(job=_placed(job), beside=(), directory=directory)


def job_name(path: Path) -> str:
    """The name of a job that is made of a program."""
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:20].strip("-") or "job"


def _placed(document: Object) -> Object:
    metadata = document["metadata"]
    return {
        **document,
        "metadata": {**metadata, "namespace": metadata.get("namespace") or NAMESPACE},
    }
