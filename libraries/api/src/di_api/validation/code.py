"""Rules about the code of a job: its bundle, its directory, and what templates must leave free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.field_error import FieldError, items, mapping
from di_api.validation.checkpoint import CLAIM_PATTERN, DOTS_PATTERN, PATH_PATTERN
from di_api.validation.repeated import names_of
from di_api.validation.tasks import Tasks
from di_api.validation.templates.rules import coordinated_templates

SHA256_PATTERN: Final = "[0-9a-f]{64}"
FILE_PATTERN: Final = "[^/:]+(/[^/:]+)*"
"""Pattern of the path of a file below the directory of the code."""
FILE_DOTS_PATTERN: Final = "(^|/)[.]{1,2}(/|$)"
"""Pattern of the parts that such a path must not contain."""

_PATH: Final = "spec.code"
_OURS: Final = (names.NODES_FILE_DIR, names.SERVER_ACCESS_DIR, names.CODE_BUNDLE_DIR)
_VOLUMES: Final = (names.CODE_VOLUME, names.CODE_BUNDLE_VOLUME)


def wrong_hash(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a hash that no SHA-256 has."""
    found = mapping(spec.get("code")).get("sha256")
    if isinstance(found, str) and not re.fullmatch(SHA256_PATTERN, found):
        message = "must be 64 hexadecimal digits in lower case, as `di submit` and `di push` write"
        yield FieldError(f"{_PATH}.sha256", found, message)


def wrong_config_map(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for an invalid name of a ConfigMap."""
    found = mapping(spec.get("code")).get("configMap")
    if isinstance(found, str) and not re.fullmatch(CLAIM_PATTERN, found):
        message = "must be lower-case letters, digits, dashes and dots, as a ConfigMap's name is"
        yield FieldError(f"{_PATH}.configMap", found, message)


def wrong_directory(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a path that no volume can be mounted at."""
    path = mapping(spec.get("code")).get("path")
    if isinstance(path, str) and (
        not re.fullmatch(PATH_PATTERN, path) or re.search(DOTS_PATTERN, path)
    ):
        message = "must be an absolute path such as /code, without . or .. or a colon"
        yield FieldError(f"{_PATH}.path", path, message)


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
    for ours in _OURS:
        if isinstance(path, str) and f"{path}/".startswith(f"{ours}/"):
            message = f"{ours} is where the operator puts its files; choose another, such as /code"
            yield FieldError(f"{_PATH}.path", path, message)
    yield from _taken(
        "spec.volumes", spec.get("volumes"), _VOLUMES, "is the name of a volume of spec.code"
    )
    for where, template in _templates(spec, tasks):
        pod = mapping(template.get("spec"))
        message = "is the name of a volume of spec.code"
        yield from _taken(f"{where}.spec.volumes", pod.get("volumes"), _VOLUMES, message)
        for field in ("containers", "initContainers"):
            message = "is the name of the container that unpacks spec.code"
            listed = f"{where}.spec.{field}"
            yield from _taken(listed, pod.get(field), (names.CODE_CONTAINER,), message)
            for index, container in enumerate(items(pod.get(field))):
                yield from _mounted(f"{listed}[{index}].volumeMounts", mapping(container), path)


def _templates(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, task in tasks:
        yield f"{path}.template", mapping(task.get("template"))
    for path, template in coordinated_templates(spec):
        yield path, mapping(template)


def _taken(path: str, listed: object, ours: tuple[str, ...], message: str) -> Iterator[FieldError]:
    for index, name in names_of(listed).items():
        if name in ours:
            yield FieldError(f"{path}[{index}].name", name, f"{message}; choose another")


def _mounted(path: str, container: Mapping[str, Any], at: object) -> Iterator[FieldError]:
    for index, mount in enumerate(map(mapping, items(container.get("volumeMounts")))):
        found = mount.get("mountPath")
        if isinstance(found, str) and isinstance(at, str) and found.rstrip("/") == at:
            message = "is where spec.code is mounted; give one of them another path"
            yield FieldError(f"{path}[{index}].mountPath", found, message)
