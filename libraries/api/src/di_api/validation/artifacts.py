"""Rules about the artifacts of a job: their volumes, paths, and the tasks that have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.code_names import CODE_BUNDLE_DIR
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.artifact import MOST_ARTIFACTS, artifacts_volume
from di_api.validation.mounts import (
    ending_volume,
    in_own_directory,
    mounted_twice,
    reserved_names,
    wrong_mount_path,
    wrong_object_name,
)
from di_api.validation.repeated import names_of, repeated_names
from di_api.validation.tasks import Tasks, task_names, wrong_names
from di_api.validation.templates.rules import coordinated_templates

_LIST: Final = "spec.artifacts"
_EXAMPLE: Final = "/results"
_OURS: Final = (names.NODES_FILE_DIR, names.SERVER_ACCESS_DIR, CODE_BUNDLE_DIR)
_VOLUMES: Final = tuple(map(artifacts_volume, range(MOST_ARTIFACTS)))
_USE: Final = "is the name of a volume of spec.artifacts"

Item = tuple[str, Mapping[str, Any]]


def wrong_sources(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error of each item that has not exactly one of a volume and a claim."""
    for path, found in _items(spec):
        claim, volume = found.get("persistentVolumeClaim"), found.get("volume")
        if volume is None and claim is None:
            message = "is required, unless persistentVolumeClaim is given"
            yield FieldError(f"{path}.volume", ABSENT, message)
        elif volume is not None and claim is not None:
            message = "artifacts are in a volume of the job or in a claim, not in both"
            yield FieldError(f"{path}.persistentVolumeClaim", claim, message)


def wrong_claims(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for invalid names of claims."""
    for path, found in _items(spec):
        field = "persistentVolumeClaim"
        yield from wrong_object_name(f"{path}.{field}", found.get(field), "claim")


def wrong_paths(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for paths that no volume can be mounted at."""
    for path, found in _items(spec):
        yield from wrong_mount_path(f"{path}.path", found.get("path"), _EXAMPLE)


def wrong_artifact_places(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield errors for repeated names, volumes and tasks that do not exist, and conflicts in pods.

    Two items can have the same path if no task has both.
    """
    found = _items(spec)
    if not found:
        return
    yield from repeated_names(names_of(spec.get("artifacts")), _LIST, "another artifact")
    if any(each.get("persistentVolumeClaim") is not None for _, each in found):
        yield from reserved_names("spec.volumes", spec.get("volumes"), _VOLUMES, _USE)
        for where, _, template in _templates(spec, tasks):
            volumes = mapping(template.get("spec")).get("volumes")
            yield from reserved_names(f"{where}.spec.volumes", volumes, _VOLUMES, _USE)
    for index, (path, each) in enumerate(found):
        yield from _of_item(path, each, spec, tasks)
        before = [item for item in found[:index] if _share_tasks(item[1], each)]
        yield from _same_path(path, each, spec, before)


def _of_item(
    path: str, found: Mapping[str, Any], spec: Mapping[str, Any], tasks: Tasks
) -> Iterator[FieldError]:
    yield from ending_volume(f"{path}.volume", found.get("volume"), spec)
    yield from in_own_directory(f"{path}.path", found.get("path"), _OURS, _EXAMPLE)
    named = found.get("tasks")
    if tasks:
        yield from wrong_names(f"{path}.tasks", named, task_names(tasks))
    elif named is not None:
        message = "a job with a coordinator has no tasks; leave it out for all pods"
        yield FieldError(f"{path}.tasks", named, message)
    for where, task, template in _templates(spec, tasks):
        if not items(named) or task in items(named):
            yield from _mounted(where, template, found.get("path"), path)


def _mounted(
    where: str, template: Mapping[str, Any], at: object, field: str
) -> Iterator[FieldError]:
    pod = mapping(template.get("spec"))
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(items(pod.get(kind))):
            place = f"{where}.spec.{kind}[{index}]"
            yield from mounted_twice(place, mapping(container), at, field)


def _same_path(
    path: str, found: Mapping[str, Any], spec: Mapping[str, Any], before: list[Item]
) -> Iterator[FieldError]:
    at = found.get("path")
    others = [(f"spec.{field}", mapping(spec.get(field))) for field in ("checkpoint", "code")]
    for where, other in (*others, *before):
        if isinstance(at, str) and other.get("path") == at:
            message = f"is where {where} is mounted; give one of them another path"
            yield FieldError(f"{path}.path", at, message)
            return


def _share_tasks(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    ours, theirs = items(one.get("tasks")), items(other.get("tasks"))
    return not ours or not theirs or any(name in theirs for name in ours)


def _items(spec: Mapping[str, Any]) -> list[Item]:
    listed = items(spec.get("artifacts"))[:MOST_ARTIFACTS]
    return [(f"{_LIST}[{index}]", mapping(each)) for index, each in enumerate(listed)]


def _templates(
    spec: Mapping[str, Any], tasks: Tasks
) -> Iterator[tuple[str, object, Mapping[str, Any]]]:
    """Yield path, task and template of each task or role."""
    for path, task in tasks:
        yield f"{path}.template", task.get("name"), mapping(task.get("template"))
    for path, template in coordinated_templates(spec):
        yield path, None, mapping(template)
