"""The tables of docs/reference/dijob.md, derived from the declarations in `di_api.spec`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from di_api.crd.changes import may_change, may_change_before_start
from di_api.spec.bounds import MAX_INT32
from di_api.spec.coordinated import Coordinated, Replica
from di_api.spec.declared import Field, fields_of
from di_api.spec.failure import FailurePolicy, FailureRule
from di_api.spec.job import JobSpec
from di_api.spec.kinds import (
    UNLIMITED,
    Amount,
    Companions,
    Flag,
    Kind,
    Label,
    Labels,
    Limit,
    List,
    OneOf,
    PodTemplate,
    PortName,
    Quantities,
    Scalar,
    Struct,
    Structs,
    TargetPort,
    TemplatePatch,
    Text,
    Texts,
    Values,
    Volumes,
    Whole,
    WholeOrRange,
)
from di_api.spec.task import Task
from di_api.spec.task_port import TaskPort
from di_api.spec.task_service import ServicePort
from di_api.spec.topology import Topology

_OBJECTS: Final[Mapping[str, type]] = {
    "spec": JobSpec,
    "spec.tasks[]": Task,
    "spec.tasks[].service.ports[]": ServicePort,
    "spec.tasks[].ports[]": TaskPort,
    "spec.failurePolicy": FailurePolicy,
    "spec.failurePolicy.rules[]": FailureRule,
    "spec.scheduling.topology[]": Topology,
    "spec.coordinated": Coordinated,
    "spec.coordinated.replicas[]": Replica,
}
"""The objects with a table of their own; fields of other objects are in their owner's table."""
CHANGES: Final = "changes"
TABLES: Final = (*_OBJECTS, CHANGES)


def table(name: str) -> Iterator[str]:
    """Yield the Markdown lines of one of TABLES."""
    if name == CHANGES:
        yield from _changes()
        return
    yield "| Field | Type | Default | Meaning |"
    yield "|---|---|---|---|"
    yield from _rows(_OBJECTS[name])


def _rows(owner: type) -> Iterator[str]:
    for name, field in fields_of(owner).items():
        if isinstance(field.kind, Struct) and field.kind.of not in _OBJECTS.values():
            for below, inner in field.inner.items():
                yield _row(f"{name}.{below}", inner, default=_default(inner, field), owner=field)
        else:
            yield _row(name, field, default=_default(field))


def _row(name: str, field: Field, *, default: str, owner: Field | None = None) -> str:
    about = (owner.declared.more if owner else "") or field.declared.about
    stage = f"*{field.stage.capitalize()}.* " if field.stage else ""
    meaning = f"{stage}{about} {field.declared.more}".strip()
    cells = (f"`{name}`", _type(field.kind), default, meaning)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _default(field: Field, owner: Field | None = None) -> str:
    if field.declared.absent:
        return field.declared.absent
    if field.default is not None:
        value = field.default
        return f"`{value if isinstance(value, str) else json.dumps(value)}`"
    if field.is_required and (owner is None or owner.is_required):
        return "required"
    return ""


def _type(kind: Kind) -> str:
    match kind:
        case Labels() | Texts() | Values() | Volumes() | Companions() | Structs():
            found = _list(kind)
        case Quantities():
            found = f"quantities by resource, up to {kind.most}"
        case PodTemplate() | TemplatePatch():
            patch = "patch of a " if isinstance(kind, TemplatePatch) else ""
            found = f"{patch}core/v1 PodTemplateSpec"
        case Struct():
            found = "object, see below"
        case _:
            found = _scalar(kind)
    return found


def _scalar(kind: Scalar) -> str:
    match kind:
        case Flag():
            found = "boolean"
        case Whole():
            found = f"{kind.minimum} or more"
            if kind.maximum < MAX_INT32:
                found = f"{kind.minimum} to {kind.maximum}"
        case WholeOrRange():
            found = f"{kind.minimum} to {kind.maximum}, or a range of these"
        case Limit():
            found = f"{kind.minimum} or more, or `{UNLIMITED}`"
        case PortName():
            found = "name of a port"
        case TargetPort():
            found = f"1 to {kind.highest}, or the name of a port"
        case Amount():
            found = "quantity"
        case OneOf():
            found = ", ".join(f"`{choice.value}`" for choice in kind.choices)
        case Text():
            found = f"text, up to {kind.longest} characters"
        case Label():
            found = f"name of a {kind.of}" if kind.of else "DNS label"
    return found


def _list(kind: List) -> str:
    match kind:
        case Labels():
            return f"list of {kind.of} names, up to {kind.most}"
        case Texts() | Values():
            return f"list of {kind.item}s, up to {kind.most}"
        case Volumes():
            return f"list of core/v1 Volume, up to {kind.most}"
        case Companions():
            return f"list of objects, up to {kind.most}"
        case _:
            count = f"{kind.least} to {kind.most}" if kind.least else f"up to {kind.most}"
            return f"list of {count}, see below"


def _changes() -> Iterator[str]:
    listed = ", ".join(f"`{name}`" for name in may_change(JobSpec, with_lists=True))
    yield "| | May change |"
    yield "|---|---|"
    yield f"| while the job exists | {listed} |"
    early = ", ".join(f"`{name}`" for name in may_change_before_start(JobSpec))
    yield f"| while it is suspended and has never started | {early} as well |"
    yield "| once it is Succeeded or Failed | nothing of the spec; labels and annotations may |"
