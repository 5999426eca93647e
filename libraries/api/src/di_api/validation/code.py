"""Rules about the code of a job: its bundle, its directory, and what templates must leave free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.code_names import CODE_BUNDLE_DIR, CODE_BUNDLE_VOLUME, CODE_VOLUME
from di_api.field_error import FieldError, items, mapping
from di_api.validation.mounts import (
    in_own_directory,
    mounted_twice,
    reserved_names,
    wrong_mount_path,
    wrong_object_name,
)
from di_api.validation.tasks import Tasks
from di_api.validation.templates.rules import coordinated_templates

SHA256_PATTERN: Final = "[0-9a-f]{64}"
FILE_PATTERN: Final = "[^/:]+(/[^/:]+)*"
"""Pattern of the path of a file below the directory of the code."""
FILE_DOTS_PATTERN: Final = "(^|/)[.]{1,2}(/|$)"
"""Pattern of the parts that such a path must not contain."""

_PATH: Final = "spec.code"
_EXAMPLE: Final = "/code"
_OURS: Final = (names.NODES_FILE_DIR, names.SERVER_ACCESS_DIR, CODE_BUNDLE_DIR)
_VOLUMES: Final = (CODE_VOLUME, CODE_BUNDLE_VOLUME)
_VOLUME_USE: Final = "is the name of a volume of spec.code"
_CONTAINER_USE: Final = "is the name of the container that unpacks spec.code"


def wrong_hash(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a hash that no SHA-256 has."""
    found = mapping(spec.get("code")).get("sha256")
    if isinstance(found, str) and not re.fullmatch(SHA256_PATTERN, found):
        message = "must be 64 hexadecimal digits in lower case, as `di submit` and `di push` write"
        yield FieldError(f"{_PATH}.sha256", found, message)


def wrong_config_map(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Return the error for an invalid name of a ConfigMap."""
    found = mapping(spec.get("code")).get("configMap")
    return wrong_object_name(f"{_PATH}.configMap", found, "ConfigMap")


def wrong_code_claim(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for an invalid name of a claim, and for a bundle on a claim with parts."""
    code = mapping(spec.get("code"))
    field = f"{_PATH}.persistentVolumeClaim"
    yield from wrong_object_name(field, code.get("persistentVolumeClaim"), "claim")
    if code.get("persistentVolumeClaim") is not None and code.get("parts") is not None:
        message = "is for a bundle in ConfigMaps, and this one is on a claim; leave out one of them"
        yield FieldError(f"{_PATH}.parts", code.get("parts"), message)


def wrong_directory(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Return the error for a path that no volume can be mounted at."""
    return wrong_mount_path(f"{_PATH}.path", mapping(spec.get("code")).get("path"), _EXAMPLE)


def wrong_requirements(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a file that is outside the bundle."""
    file = mapping(spec.get("code")).get("requirements")
    if isinstance(file, str) and (
        not re.fullmatch(FILE_PATTERN, file) or re.search(FILE_DOTS_PATTERN, file)
    ):
        message = "must be the path of a file in the bundle such as requirements.txt, without . "
        yield FieldError(f"{_PATH}.requirements", file, f"{message}or .. or a colon")


def wrong_code_places(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield errors for a directory of the operator, and for names and mounts of templates that the
    code needs.
    """
    code = spec.get("code")
    if not isinstance(code, Mapping):
        return
    path = code.get("path")
    yield from in_own_directory(f"{_PATH}.path", path, _OURS, _EXAMPLE)
    yield from reserved_names("spec.volumes", spec.get("volumes"), _VOLUMES, _VOLUME_USE)
    for where, template in _templates(spec, tasks):
        pod = mapping(template.get("spec"))
        yield from reserved_names(
            f"{where}.spec.volumes", pod.get("volumes"), _VOLUMES, _VOLUME_USE
        )
        for field in ("containers", "initContainers"):
            listed = f"{where}.spec.{field}"
            yield from reserved_names(
                listed, pod.get(field), (names.CODE_CONTAINER,), _CONTAINER_USE
            )
            for index, container in enumerate(items(pod.get(field))):
                yield from mounted_twice(f"{listed}[{index}]", mapping(container), path, _PATH)


def _templates(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, task in tasks:
        yield f"{path}.template", mapping(task.get("template"))
    for path, template in coordinated_templates(spec):
        yield path, mapping(template)
