"""Rules about what `spec.code`, `spec.checkpoint` and `spec.artifacts` mount into pods."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from di_api import dns_names
from di_api.field_error import FieldError, items, mapping
from di_api.validation.repeated import names_of

OBJECT_NAME_PATTERN: Final = rf"{dns_names.DNS_LABEL}(\.{dns_names.DNS_LABEL})*"
"""Pattern of an object's name, a DNS subdomain of RFC 1123, without the length limit."""
PATH_PATTERN: Final = "(/[^/:]+)+"
"""Pattern of a path that is absolute, not the root, and that container runtimes can mount at."""
_WITH_THE_POD: Final = ("emptyDir", "ephemeral")
DOTS_PATTERN: Final = "/[.]{1,2}(/|$)"
"""Pattern of the parts that such a path must not contain."""


def wrong_object_name(where: str, found: object, kind: str) -> Iterator[FieldError]:
    """Yield the error for an invalid name of an object of `kind`."""
    if isinstance(found, str) and not re.fullmatch(OBJECT_NAME_PATTERN, found):
        message = f"must be lower-case letters, digits, dashes and dots, as a {kind}'s name is"
        yield FieldError(where, found, message)


def wrong_mount_path(where: str, path: object, example: str) -> Iterator[FieldError]:
    """Yield the error for a path that no volume can be mounted at."""
    if isinstance(path, str) and (
        not re.fullmatch(PATH_PATTERN, path) or re.search(DOTS_PATTERN, path)
    ):
        message = f"must be an absolute path such as {example}, without . or .. or a colon"
        yield FieldError(where, path, message)


def in_own_directory(
    where: str, path: object, own: Collection[str], example: str
) -> Iterator[FieldError]:
    """Yield the error for a path in one of the operator's `own` directories."""
    for directory in own:
        if isinstance(path, str) and f"{path}/".startswith(f"{directory}/"):
            message = f"{directory} is where the operator puts its files"
            yield FieldError(where, path, f"{message}; choose another, such as {example}")


def reserved_names(
    where: str, listed: object, reserved: Collection[str], use: str
) -> Iterator[FieldError]:
    """Yield errors for volumes or containers of a list with a reserved name."""
    for index, name in names_of(listed).items():
        if name in reserved:
            yield FieldError(f"{where}[{index}].name", name, f"{use}; choose another")


def ending_volume(where: str, volume: object, spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a volume that `spec.volumes` lacks, or that ends with its pod."""
    if not isinstance(volume, str):
        return
    named = [
        each for each in map(mapping, items(spec.get("volumes"))) if each.get("name") == volume
    ]
    if not named:
        yield FieldError(where, volume, "no volume in spec.volumes has that name")
        return
    # The API server treats a volume without a source as an emptyDir.
    sources = [name for name in named[0] if name != "name"] or ["emptyDir"]
    if sources[0] in _WITH_THE_POD:
        yield FieldError(where, volume, f"is of the kind {sources[0]}, which ends with its pod")


def mounted_twice(
    where: str, container: Mapping[str, Any], at: object, field: str
) -> Iterator[FieldError]:
    """Yield errors for mounts of a container at the path where the operator mounts `field`."""
    for index, mount in enumerate(map(mapping, items(container.get("volumeMounts")))):
        found = mount.get("mountPath")
        if isinstance(found, str) and isinstance(at, str) and found.rstrip("/") == at:
            message = f"is where {field} is mounted; give one of them another path"
            yield FieldError(f"{where}.volumeMounts[{index}].mountPath", found, message)
