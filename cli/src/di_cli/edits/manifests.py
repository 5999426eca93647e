"""Manifests of DIJobs from a user, and their changes by flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.base_template import with_base
from di_api.field_error import items, mapping
from di_api.names import API_VERSION, COORDINATED_VERSIONS, DI_CONTAINER, GROUP, KIND
from di_cli.documents import numbered

MOST_BYTES: Final = 16 << 20
"""Maximum bytes of one file: a job, and all ConfigMaps of its code."""
_VERSIONS: Final = frozenset({API_VERSION, *(f"{GROUP}/{v}" for v in COORDINATED_VERSIONS)})

Object = dict[str, Any]


class ManifestError(ValueError):
    """A manifest, or a flag that changes it, is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of a manifest by flags.

    Attributes:
        name: of the job; None keeps it.
        images: by task; "" is every task.
        replicas: by task.
    """

    name: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)


def jobs_of(documents: Iterable[object], where: str) -> list[Object]:
    """Return the DIJobs in a file's documents, those in Lists included, with `spec.template`
    merged into their tasks.

    Raises ManifestError for any other object.
    """
    found: list[Object] = []
    for number, document in numbered(documents):
        if document is None:
            continue
        if not isinstance(document, dict):
            raise ManifestError(f"{where}: document {number} is no object")
        _check_kind(document, f"{where}: document {number}")
        spec = document.get("spec")
        found.append(
            {**document, "spec": with_base(spec)} if isinstance(spec, Mapping) else document
        )
    return found


def changed(job: Object, changes: Changes) -> Object:
    """Return the job with the flags' changes. Raises ManifestError for an unknown task."""
    result: Object = _copied(job)
    if changes.name is not None:
        result["metadata"] = {**mapping(result.get("metadata")), "name": changes.name}
    tasks = [
        task for task in items(mapping(result.get("spec")).get("tasks")) if isinstance(task, dict)
    ]
    names = [_name_of(task) for task in tasks]
    for wanted in (*changes.images, *changes.replicas):
        if wanted and wanted not in names:
            known = ", ".join(names) or "none"
            raise ManifestError(f"the job has no task {wanted}; its tasks are {known}")
    for task, name in zip(tasks, names, strict=True):
        if name in changes.replicas:
            task["replicas"] = changes.replicas[name]
        image = changes.images.get(name, changes.images.get(""))
        if image is not None:
            _set_image(task, image)
    return result


def parse_images(texts: Sequence[str]) -> dict[str, str]:
    """Parse `IMAGE` (of every task) and `TASK=IMAGE`."""
    found: dict[str, str] = {}
    for text in texts:
        task, equals, image = text.partition("=")
        found[task if equals else ""] = image if equals else text
    return found


def parse_replicas(texts: Sequence[str]) -> dict[str, int]:
    """Parse `TASK=COUNT`. Raises ManifestError."""
    found: dict[str, int] = {}
    for text in texts:
        task, equals, count = text.partition("=")
        if not equals or not task or not count.isdecimal():
            raise ManifestError(f"{text!r}: give TASK=COUNT, as in collector=4")
        found[task] = int(count)
    return found


def _copied(value: Any) -> Any:
    """Return a copy in which no two parts are the same object, as they are after YAML aliases."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _check_kind(document: Object, where: str) -> None:
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind != KIND:
        raise ManifestError(f"{where} is a {kind or 'manifest without kind'}, and no {KIND}")
    if version not in _VERSIONS:
        raise ManifestError(f"{where} has apiVersion {version!r}; it is {API_VERSION}")


def _name_of(task: Mapping[str, Any]) -> str:
    return str(task.get("name") or task.get("type") or "")


def _set_image(task: Object, image: str) -> None:
    """Set the image of the program's own container, else of the first."""
    spec = mapping(mapping(task.get("template")).get("spec"))
    containers = [each for each in items(spec.get("containers")) if isinstance(each, dict)]
    own = [each for each in containers if each.get("name") == DI_CONTAINER] or containers[:1]
    for container in own:
        container["image"] = image
