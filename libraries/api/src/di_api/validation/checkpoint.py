"""Rules about the volume and the mount path of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.task import TaskType
from di_api.validation.mounts import (
    ending_volume,
    in_own_directory,
    mounted_twice,
    reserved_names,
    wrong_mount_path,
    wrong_object_name,
)
from di_api.validation.tasks import Tasks

_PATH: Final = "spec.checkpoint"
_EXAMPLE: Final = "/checkpoint"
_RESERVED: Final = (names.CHECKPOINT_VOLUME,)
_USE: Final = "is what the operator calls the volume of spec.checkpoint"
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
    """Return the error for an invalid name of a claim."""
    claim = mapping(spec.get("checkpoint")).get("persistentVolumeClaim")
    return wrong_object_name(f"{_PATH}.persistentVolumeClaim", claim, "claim")


def wrong_path(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Return the error for a path that no volume can be mounted at."""
    return wrong_mount_path(f"{_PATH}.path", mapping(spec.get("checkpoint")).get("path"), _EXAMPLE)


def wrong_places(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield errors for a volume that does not exist or is lost with its pod, for a job without
    learners, and for conflicts in the pods of learners.
    """
    found = spec.get("checkpoint")
    if not isinstance(found, Mapping):
        return
    yield from ending_volume(f"{_PATH}.volume", found.get("volume"), spec)
    yield from in_own_directory(f"{_PATH}.path", found.get("path"), _OURS, _EXAMPLE)
    learners = list(_learners(spec, tasks))
    if not learners:
        yield FieldError(_PATH, found, "only learners have checkpoints, and this job has none")
    is_claim = found.get("persistentVolumeClaim") is not None
    if is_claim:
        yield from reserved_names("spec.volumes", spec.get("volumes"), _RESERVED, _USE)
    for path, template in learners:
        pod = mapping(template.get("spec"))
        if is_claim:
            yield from reserved_names(f"{path}.spec.volumes", pod.get("volumes"), _RESERVED, _USE)
        for field in ("containers", "initContainers"):
            for index, container in enumerate(items(pod.get(field))):
                where = f"{path}.spec.{field}[{index}]"
                yield from mounted_twice(where, mapping(container), found.get("path"), _PATH)


def _learners(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and template of each task or role with checkpoints."""
    for path, task in tasks:
        if task.get("type") == TaskType.LEARNER:
            yield f"{path}.template", mapping(task.get("template"))
    learner = mapping(spec.get("coordinated")).get("learner")
    if learner is not None:
        template = mapping(learner).get("template")
        yield "spec.coordinated.learner.template", mapping(template)
