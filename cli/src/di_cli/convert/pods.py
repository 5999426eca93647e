"""Pod templates of other operators, and what all manifests have in their metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.template_patch import BY_NAME, patched
from di_cli.convert.fields import Fields, Object, RefusedManifest

MASTER_PORT: Final = "master-port"
"""Name of the port at which a process group meets."""
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SET_BY_OPERATOR: Final = "the operator sets it in each pod of a DIJob"
_KEPT: Final = ("name", "generateName", "namespace", "labels", "annotations")


def metadata_of(document: Fields) -> Object:
    """Return the metadata of the job: names, labels and annotations."""
    fields = document.inner("metadata")
    found = {name: fields.take(name) for name in _KEPT if name in fields}
    annotations = found.get("annotations")
    if isinstance(annotations, Mapping) and _APPLIED in annotations:
        found["annotations"] = {k: v for k, v in annotations.items() if k != _APPLIED}
        place = Fields(annotations, fields.at("annotations"), fields.comments)
        place.comment(_APPLIED, "kubectl writes it again")
    fields.rest("it belongs to the object that was read")
    return {name: value for name, value in found.items() if value != {}}


def template_of(fields: Fields, *, main: str = "", port: str = "") -> Object:
    """Return the pod template of a field `template`.

    Args:
        fields: the object with the field.
        main: name of the container whose end is that of the pod; the first one if there is none.
        port: name of the port at which the group meets; "" if there is none.
    """
    place = fields.at("template")
    template = fields.inner("template")
    metadata = template.inner("metadata")
    spec = template.inner("spec")
    result: Object = {
        name: metadata.take(name) for name in ("labels", "annotations") if name in metadata
    }
    result = {"metadata": result} if result else {}
    metadata.rest("pods of a DIJob have names of their own; labels and annotations are kept")
    for name in ("restartPolicy", "hostname", "subdomain"):
        spec.comment(name, _SET_BY_OPERATOR)
    containers = spec.inners("containers")
    if not containers:
        raise RefusedManifest(
            f"{place}.spec.containers", "must have a container", "name the container and its image"
        )
    result["spec"] = {
        "containers": _main_first([_container(each, main, port) for each in containers], main),
        **_all_of(spec),
    }
    template.rest()
    return result


def patch_between(before: Object, after: Object) -> Object | None:
    """Return the leaderTemplatePatch that makes one template into the other; None if no patch
    does.
    """
    patch = _difference(before, after)
    return patch if patched(before, patch) == after else None


def _container(fields: Fields, main: str, port: str) -> Object:
    result = _all_of(fields)
    if not port or result.get("name") != main:
        return result
    ports = [
        _named_port(each, f"{fields.at('ports')}[{index}]", port, fields)
        for index, each in enumerate(items(result.get("ports")))
    ]
    renamed: Object = _renamed({**result, "ports": ports} if ports else result, port)
    return renamed


def _named_port(declared: Any, path: str, port: str, fields: Fields) -> Any:
    if mapping(declared).get("name") != port:
        return declared
    place = Fields(declared, path, fields.comments)
    place.remark("name", f"the port of a process group is named {MASTER_PORT}")
    return {**declared, "name": MASTER_PORT}


def _renamed(value: Any, port: str) -> Any:
    """Return a value whose probes and hooks have the new name of the port."""
    if isinstance(value, Mapping):
        return {
            key: MASTER_PORT if key == "port" and each == port else _renamed(each, port)
            for key, each in value.items()
        }
    return [_renamed(each, port) for each in value] if isinstance(value, list) else value


def _main_first(containers: list[Object], main: str) -> list[Object]:
    # The first container is the one whose end is that of the replica.
    return sorted(containers, key=lambda each: each.get("name") != main)


def _all_of(fields: Fields) -> Object:
    return {name: fields.take(name) for name in fields}


def _difference(before: Any, after: Any) -> Any:
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return after
    patch: Object = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            patch[key] = value
        elif before[key] != value:
            by_name = key in BY_NAME and _named(before[key]) and _named(value)
            patch[key] = (_named_difference if by_name else _difference)(before[key], value)
    return patch


def _named_difference(before: Sequence[Object], after: Sequence[Object]) -> list[Object]:
    there = {each["name"]: each for each in before}
    return [
        {"name": each["name"], **_difference(there.get(each["name"], {}), each)}
        for each in after
        if there.get(each["name"]) != each
    ]


def _named(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(mapping(each).get("name"), str) for each in value)
    )
