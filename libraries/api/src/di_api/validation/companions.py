"""Rules about `spec.companions`: kinds, names and sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from di_api import dns_names, names
from di_api.companions import COMPANION_NAME, CompanionKind, may_be_allowed, with_job_name
from di_api.field_error import ABSENT, FieldError, child, items, mapping
from di_api.spec.bounds import MAX_COMPANIONS
from di_api.validation.names import GENERATED_SUFFIX

MAX_COMPANION_BYTES: Final = 256 * 1024
"""Maximum bytes of all companions of a job as JSON, after the job's name is inserted. A Kubernetes
object can have 1.5 MB, and every watcher gets the job with all its companions.
"""
MAX_DEPTH: Final = 64
"""Maximum nesting of objects and lists."""
_NAME: Final = re.compile(COMPANION_NAME)
_METADATA: Final = ("name", "namespace", "labels", "annotations")
_NAMED: Final = (
    f"must be {names.JOB_PLACEHOLDER}, or {names.JOB_PLACEHOLDER}- and then lower-case letters, "
    "digits and dashes: what is not called after the job may be another's"
)


def companion_errors(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in the companions of a raw spec, whatever kinds the cluster allows.

    `metadata` is the job's.
    """
    job, first, size = _job_name(metadata), dict[tuple[str, str, str], str](), 0
    companions = items(spec.get("companions"))[:MAX_COMPANIONS]
    for index, companion in enumerate(companions):
        path = f"spec.companions[{index}]"
        if not isinstance(companion, Mapping):
            continue  # reported by `shape`
        if _is_deeper(companion, MAX_DEPTH):
            message = f"has more than {MAX_DEPTH} objects and lists within each other"
            yield FieldError(path, companion, message)
            continue
        size += len(json.dumps(with_job_name(companion, job)))
        yield from _kind_errors(path, companion)
        about = companion.get("metadata")
        if not isinstance(about, Mapping):
            value = ABSENT if about is None else about
            yield FieldError(f"{path}.metadata", value, "must be an object with a name")
            continue
        yield from _metadata_errors(f"{path}.metadata", about, metadata.get("namespace"))
        name, where = about.get("name"), f"{path}.metadata.name"
        if not isinstance(name, str):
            yield FieldError(where, ABSENT if name is None else name, _NAMED)
            continue
        yield from _name_errors(where, name, job, _identity(companion))
        key = (*_identity(companion), name)
        if first.setdefault(key, path) != path:
            yield FieldError(where, name, f"is the name of {first[key]} already")
    if size > MAX_COMPANION_BYTES:
        message = f"have {size} bytes as JSON; together they may have {MAX_COMPANION_BYTES}"
        yield FieldError("spec.companions", companions, message)


def foreign_kinds(job: Mapping[str, Any], allowed: Sequence[CompanionKind]) -> Iterator[FieldError]:
    """Yield the errors for companions whose kind can be allowed, but is not allowed in this
    cluster.
    """
    known = {(kind.api_version, kind.kind) for kind in allowed}
    choice = ", ".join(map(str, allowed)) or "none"
    companions = items(mapping(mapping(job).get("spec")).get("companions"))[:MAX_COMPANIONS]
    for index, companion in enumerate(map(mapping, companions)):
        api_version, kind = companion.get("apiVersion"), companion.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            continue  # reported by `companion_errors`
        if may_be_allowed(api_version, kind) and (api_version, kind) not in known:
            message = (
                f"is no kind that jobs may bring along in this cluster, as apiVersion "
                f"{_cut(api_version)}; allowed: {choice}"
            )
            yield FieldError(f"spec.companions[{index}].kind", kind, message)


def _job_name(metadata: Mapping[str, Any]) -> str:
    """Return the job's name; if it will be generated, a name of the same length."""
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return name
    return prefix + "x" * GENERATED_SUFFIX if isinstance(prefix, str) else ""


def _is_deeper(value: object, most: int) -> bool:
    level: list[object] = [value]
    for _ in range(most):
        level = [below for each in level for below in _below(each)]
        if not level:
            return False
    return any(isinstance(each, Mapping | list) for each in level)


def _below(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else items(value)


def _identity(companion: Mapping[str, Any]) -> tuple[str, str]:
    """Return group and kind, because all versions of an object share one name."""
    group, _, _ = str(companion.get("apiVersion")).rpartition("/")
    return group, str(companion.get("kind"))


def _kind_errors(path: str, companion: Mapping[str, Any]) -> Iterator[FieldError]:
    api_version, kind = companion.get("apiVersion"), companion.get("kind")
    for field, value in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(value, str):
            yield FieldError(f"{path}.{field}", ABSENT if value is None else value, "is required")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return
    if not may_be_allowed(api_version, kind):
        message = (
            f"is no kind that jobs may ever bring along, as apiVersion {_cut(api_version)}: of "
            "Kubernetes' own kinds only those that hold data or ask for room and devices"
        )
        yield FieldError(f"{path}.kind", kind, message)


def _metadata_errors(
    path: str, metadata: Mapping[str, Any], namespace: object
) -> Iterator[FieldError]:
    for field, value in metadata.items():
        if field not in _METADATA and value is not None:
            message = f"is not taken; a companion has {', '.join(_METADATA)}"
            yield FieldError(child(path, field), value, message)
    asked = metadata.get("namespace")
    if asked is not None and asked != namespace:
        yield FieldError(f"{path}.namespace", asked, "must be the job's own, or left out")
    for field in ("labels", "annotations"):
        yield from _keys(f"{path}.{field}", metadata.get(field))


def _keys(path: str, given: object) -> Iterator[FieldError]:
    if given is not None and not isinstance(given, Mapping):
        yield FieldError(path, given, "must be an object")
    for key, value in mapping(given).items():
        if key.startswith(names.RESERVED_PREFIX):
            message = f"keys of {names.RESERVED_PREFIX} are reserved"
            yield FieldError(child(path, key), value, message)
        elif not isinstance(value, str):
            yield FieldError(child(path, key), value, "must be a string")


def _name_errors(path: str, name: str, job: str, identity: tuple[str, str]) -> Iterator[FieldError]:
    # The length is checked first, so the expression never sees a long text.
    if len(name) > len(names.JOB_PLACEHOLDER) + dns_names.MAX_LABEL or not _NAME.fullmatch(name):
        yield FieldError(path, name, _NAMED)
        return
    full = with_job_name(name, job)
    if len(full) > dns_names.MAX_LABEL:
        message = f"is {full[:80]} then, {len(full)} characters; it may have {dns_names.MAX_LABEL}"
        yield FieldError(path, name, message)
    elif identity == ("", "ConfigMap") and full == names.nodes_config_map_name(job):
        yield FieldError(path, name, f"is {full} then, the ConfigMap of the job's node lists")


def _cut(text: str) -> str:
    return text[:80].encode("utf-8", "replace").decode()
