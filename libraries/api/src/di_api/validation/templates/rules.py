"""The pod templates in a spec, and this project's rules about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, child, items, mapping
from di_api.quantity import fault_of_amount, read_quantity
from di_api.spec.coordinated import Coordinated, RolePods
from di_api.spec.declared import fields_of
from di_api.spec.kinds import Struct
from di_api.validation.repeated import names_of
from di_api.validation.templates.pod_rules import pod_faults

_ROLES: Final = tuple(
    name for name, field in fields_of(Coordinated).items() if field.kind == Struct(RolePods)
)


def coordinated_templates(spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield path and template of each role that `spec.coordinated` can have; None if it has none.

    Accepts a raw spec of any shape.
    """
    coordinated = mapping(spec.get("coordinated"))
    for role in _ROLES:
        path = f"spec.coordinated.{role}.template"
        yield path, mapping(coordinated.get(role)).get("template")


def unfit_pods(path: str, template: object, job_volumes: set[str]) -> Iterator[FieldError]:
    """Yield the errors that the API server would report only for the pods, after the job was
    accepted.
    """
    if not isinstance(template, Mapping):
        return
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        yield FieldError(
            f"{path}.spec", ABSENT if spec is None else spec, "must be the pod spec, an object"
        )
        return
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        yield FieldError(
            f"{path}.spec.containers",
            ABSENT if containers is None else containers,
            "must hold at least one container",
        )
    for index, container in enumerate(items(containers)):
        where = f"{path}.spec.containers[{index}]"
        if not isinstance(container, Mapping):
            yield FieldError(where, container, "must be an object")
        elif not isinstance(container.get("name"), str) or not container["name"]:
            name = container.get("name")
            yield FieldError(f"{where}.name", ABSENT if name is None else name, "is required")
    yield from _above_limits(f"{path}.spec", spec)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(items(spec.get(field))):
            yield from _above_limits(f"{path}.spec.{field}[{index}]", mapping(container))
    own_volumes = names_of(spec.get("volumes"))
    for index, volume in own_volumes.items():
        if volume in job_volumes:
            yield FieldError(
                f"{path}.spec.volumes[{index}].name",
                volume,
                "is the name of a volume in spec.volumes already",
            )
    yield from pod_faults(path, template, job_volumes)


def _above_limits(path: str, owner: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for requests above the limit of the same resource, of a container or of the
    pod.
    """
    resources = mapping(owner.get("resources"))
    limits = mapping(resources.get("limits"))
    for name, asked in mapping(resources.get("requests")).items():
        limit = limits.get(name)
        if asked is None or limit is None or fault_of_amount(asked) or fault_of_amount(limit):
            continue
        if read_quantity(asked) > read_quantity(limit):
            where = child(f"{path}.resources.requests", name)
            yield FieldError(where, asked, f"must be at most the limit, {limit}")
