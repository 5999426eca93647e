"""The input of `di run` as API objects: a manifest, or a program with numbers of replicas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from di_api.base_template import with_base
from di_api.conversion.versions import VERSIONS, ConversionFailed, convert
from di_api.dns_names import is_dns_label
from di_api.field_error import items, mapping
from di_api.names import (
    API_VERSION,
    CHECKPOINT_VOLUME,
    DI_CONTAINER,
    GROUP,
    KIND,
    SWEEP_KIND,
)
from di_api.spec.artifact import USUAL, artifacts_volume
from di_api.spec.task import TaskType
from di_kube.safe_yaml import BadYaml, load_documents

Object = dict[str, Any]
NAMESPACE: Final = "default"
_MAX_BYTES: Final = 16 << 20
"""Maximum bytes of a file: a job, and all ConfigMaps of its code."""
_BESIDE: Final = ("ConfigMap", "Secret")
IMAGE: Final = "none"
"""Image of jobs that are built from flags: their containers have commands and no image."""


class BadManifest(Exception):
    """The input is invalid; the message has the fault and its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The job or sweep, its ConfigMaps and Secrets, and the working directory of its programs."""

    job: Object
    beside: Sequence[Object]
    directory: Path

    @property
    def is_sweep(self) -> bool:
        """Return whether it is a sweep, and no job."""
        return self.job.get("kind") == SWEEP_KIND


def read_manifest(path: Path) -> Manifest:
    """Read one DIJob or DISweep, with ConfigMaps and Secrets, from a YAML or JSON file; an older
    version is converted to the newest.

    Raises:
        BadManifest: the file is unreadable, or has other content.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise BadManifest(f"{path}: larger than {_MAX_BYTES >> 20} MiB")
        documents = [
            each for each in load_documents(path.read_text(), most=_MAX_BYTES) if each is not None
        ]
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
    jobs = [each for each in documents if each.get("kind") in (KIND, SWEEP_KIND)]
    others = [each for each in documents if each.get("kind") not in (KIND, SWEEP_KIND)]
    if len(jobs) != 1:
        raise BadManifest(f"{path}: {len(jobs)} documents of kind {KIND}, and one can run")
    for other in others:
        if other.get("kind") not in _BESIDE:
            raise BadManifest(
                f"{path}: {other.get('kind')} is nothing that a run here knows; "
                f"beside the {KIND} there can be {' and '.join(_BESIDE)}"
            )
    return Manifest(
        job=_placed(_in_newest_version(jobs[0], path)),
        beside=[_placed(each) for each in others],
        directory=path.resolve().parent,
    )


def _in_newest_version(job: Object, path: Path) -> Object:
    version = str(job.get("apiVersion"))
    known = (API_VERSION,) if job["kind"] == SWEEP_KIND else VERSIONS
    if version not in known:
        hint = f", not {version}" if version.startswith(GROUP) else f": apiVersion is {version}"
        raise BadManifest(f"{path}: jobs of {', '.join(known)} run here{hint}")
    if job["kind"] == SWEEP_KIND:
        return job
    try:
        converted = convert(job, API_VERSION)
    except ConversionFailed as error:
        raise BadManifest(f"{path}: {error}") from error
    spec = converted.get("spec")
    return {**converted, "spec": with_base(spec)} if isinstance(spec, Mapping) else converted


def made_of_flags(
    command: Sequence[str],
    *,
    counts: Mapping[TaskType, int],
    name: str,
    directory: Path,
) -> Manifest:
    """Return a job whose pods all run the same command, with a number of pods for each type."""
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


def with_checkpoint(manifest: Manifest, directory: Path) -> Manifest:
    """Return the manifest with a directory of this machine for the checkpoints of its learners."""
    spec = manifest.job["spec"]
    before = dict(mapping(spec.get("checkpoint")))
    before.pop("persistentVolumeClaim", None)
    volume = {"name": CHECKPOINT_VOLUME, "hostPath": {"path": str(directory)}}
    changed = {
        **spec,
        "checkpoint": {**before, "volume": CHECKPOINT_VOLUME},
        "volumes": [*items(spec.get("volumes")), volume],
    }
    return replace(manifest, job={**manifest.job, "spec": changed})


def with_artifacts(manifest: Manifest, directory: Path) -> Manifest:
    """Return the manifest with a directory of this machine for the artifacts of its pods.

    A job without artifacts gets those that `di submit PROGRAM --artifacts` gives it.
    """
    spec, name = manifest.job["spec"], artifacts_volume(0)
    artifacts = [
        {**{k: v for k, v in each.items() if k != "persistentVolumeClaim"}, "volume": name}
        for each in map(mapping, items(spec.get("artifacts")) or [USUAL])
    ]
    volume = {"name": name, "hostPath": {"path": str(directory)}}
    changed = {**spec, "artifacts": artifacts, "volumes": [*items(spec.get("volumes")), volume]}
    return replace(manifest, job={**manifest.job, "spec": changed})


def interpreters(job: Mapping[str, Any]) -> list[str]:
    """Return the Python commands, without a path, that the containers of a job begin with."""
    found: set[str] = set()
    for task in map(mapping, items(mapping(job.get("spec")).get("tasks"))):
        pod = mapping(mapping(task.get("template")).get("spec"))
        for container in map(mapping, items(pod.get("containers"))):
            found.update(str(word) for word in items(container.get("command"))[:1])
    return sorted(word for word in found if re.fullmatch(r"python[0-9.]*", word))


def _placed(document: Object) -> Object:
    metadata = document["metadata"]
    return {
        **document,
        "metadata": {**metadata, "namespace": metadata.get("namespace") or NAMESPACE},
    }
