"""Rules about the volume and the mount path of checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.task import TaskType
from di_api.validation.repeated import names_of
from di_api.validation.tasks import Tasks

CLAIM_PATTERN: Final = rf"{names.DNS_LABEL}(\.{names.DNS_LABEL})*"
"""Pattern of the name of a PersistentVolumeClaim, a DNS subdomain of RFC 1123, without the length
limit.
"""
PATH_PATTERN: Final = "(/[^/:]+)+"
"""Pattern of a path that is absolute, not the root, and that container runtimes can mount at."""
DOTS_PATTERN: Final = "/[.]{1,2}(/|$)"
"""Pattern of the parts that such a path must not contain."""

_PATH: Final = "spec.checkpoint"
_WITH_THE_POD: Final = ("emptyDir", "ephemeral")
_OURS: Final = (names.NODES_FILE_DIR, names.SERVER_ACCESS_DIR)


def wrong_source(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error unless there is exactly one of a volume and a claim."""
    found = spec.get("checkpoint")
    if not isinstance(found, Mapping):
        return
    claim = found.get("persistentVolumeClaim")
    if found.get("volume") is None and claim is None:
        message = "is required, unless persistentVolumeClaim is given"
        yield FieldError(f"{_PATH}.volume", ABSENT, message)
    elif found.get("volume") is not None and claim is not None:
        message = "checkpoints are in a volume of the job or in a claim, not in both"
        yield FieldError(f"{_PATH}.persistentVolumeClaim", claim, message)


def wrong_claim(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for an invalid name of a claim."""
    claim = mapping(spec.get("checkpoint")).get("persistentVolumeClaim")
    if isinstance(claim, str) and not re.fullmatch(CLAIM_PATTERN, claim):
        message = "must be lower-case letters, digits, dashes and dots, as a claim's name is"
        yield FieldError(f"{_PATH}.persistentVolumeClaim", claim, message)


def wrong_path(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a path that no volume can be mounted at."""
    path = mapping(spec.get("checkpoint")).get("path")
    if not isinstance(path, str):
        return
    if not re.fullmatch(PATH_PATTERN, path) or re.search(DOTS_PATTERN, path):
        message = "must be an absolute path such as /checkpoint, without . or .. or a colon"
        yield FieldError(f"{_PATH}.path", path, message)


def wrong_places(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield errors for a volume that does not exist or is lost with its pod, for a job without
    learners, and for conflicts in the pods of learners.
    """
    found = spec.get("checkpoint")
    if not isinstance(found, Mapping):
        return
    yield from _wrong_volume(found.get("volume"), spec)
    yield from _among_ours(found.get("path"))
    learners = list(_learners(spec, tasks))
    if not learners:
        yield FieldError(_PATH, found, "only learners have checkpoints, and this job has none")
    is_claim = found.get("persistentVolumeClaim") is not None
    if is_claim:
        yield from _taken_names("spec.volumes", spec.get("volumes"))
    for path, template in learners:
        pod = mapping(template.get("spec"))
        if is_claim:
            yield from _taken_names(f"{path}.spec.volumes", pod.get("volumes"))
        for field in ("containers", "initContainers"):
            for index, container in enumerate(items(pod.get(field))):
                where = f"{path}.spec.{field}[{index}].volumeMounts"
                yield from _taken_paths(where, mapping(container), found.get("path"))


def _wrong_volume(volume: object, spec: Mapping[str, Any]) -> Iterator[FieldError]:
    if not isinstance(volume, str):
        return
    named = [
        each for each in map(mapping, items(spec.get("volumes"))) if each.get("name") == volume
    ]
    if not named:
        message = "no volume in spec.volumes has that name"
        yield FieldError(f"{_PATH}.volume", volume, message)
        return
    # The API server treats a volume without a source as an emptyDir.
    sources = [name for name in named[0] if name != "name"] or ["emptyDir"]
    if sources[0] in _WITH_THE_POD:
        message = f"is of the kind {sources[0]}, which ends with its pod"
        yield FieldError(f"{_PATH}.volume", volume, message)


def _among_ours(path: object) -> Iterator[FieldError]:
    for ours in _OURS:
        if isinstance(path, str) and f"{path}/".startswith(f"{ours}/"):
            yield FieldError(f"{_PATH}.path", path, f"{ours} is where the operator puts its files")


def _learners(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and template of each task or role with checkpoints."""
    for path, task in tasks:
        if task.get("type") == TaskType.LEARNER:
            yield f"{path}.template", mapping(task.get("template"))
    learner = mapping(spec.get("coordinated")).get("learner")
    if learner is not None:
        template = mapping(learner).get("template")
        yield "spec.coordinated.learner.template", mapping(template)


def _taken_names(path: str, volumes: object) -> Iterator[FieldError]:
    for index, name in names_of(volumes).items():
        if name == names.CHECKPOINT_VOLUME:
            message = "is what the operator calls the volume of spec.checkpoint"
            yield FieldError(f"{path}[{index}].name", name, message)


def _taken_paths(path: str, container: Mapping[str, Any], at: object) -> Iterator[FieldError]:
    for index, mount in enumerate(map(mapping, items(container.get("volumeMounts")))):
        found = mount.get("mountPath")
        if isinstance(found, str) and isinstance(at, str) and found.rstrip("/") == at:
            message = "is where spec.checkpoint is mounted; give one of them another path"
            yield FieldError(f"{path}[{index}].mountPath", found, message)
