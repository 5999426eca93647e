"""The tables of docs/reference/dijob.md, derived from the declarations in `di_api.spec`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from di_api.base_template import ABOUT, BASE
from di_api.crd.changes import may_change, may_change_before_start
from di_api.spec.artifact import Artifact
from di_api.spec.coordinated import Coordinated, Replica
from di_api.spec.declared import Field, fields_of
from di_api.spec.failure import FailurePolicy, FailureRule
from di_api.spec.job import JobSpec
from di_api.spec.kinds import PodTemplate, Struct
from di_api.spec.task import Task
from di_api.spec.task_service import ServicePort, TaskPort
from di_api.spec.topology import Topology

_OBJECTS: Final[Mapping[str, type]] = {
    "spec": JobSpec,
    "spec.tasks[]": Task,
    "spec.tasks[].service.ports[]": ServicePort,
    "spec.tasks[].ports[]": TaskPort,
    "spec.failurePolicy": FailurePolicy,
    "spec.failurePolicy.rules[]": FailureRule,
    "spec.scheduling.topology[]": Topology,
    "spec.artifacts[]": Artifact,
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
    if _OBJECTS[name] is JobSpec:
        # No field of a stored job, so nothing declares it.
        about = f"{ABOUT} [How](#one-template-for-all-tasks)."
        yield f"| `{BASE}` | {PodTemplate().type_name()} | | {about} |"


def _rows(owner: type) -> Iterator[str]:
    for name, field in fields_of(owner).items():
        if isinstance(field.kind, Struct) and field.kind.of not in _OBJECTS.values():
            more = field.declared.more
            for below, inner in field.inner.items():
                default = _default(inner, field)
                yield _row(f"{name}.{below}", inner, default=default, more=more)
                # It is about the whole object, so once is enough.
                more = ""
        else:
            yield _row(name, field, default=_default(field))


def _row(name: str, field: Field, *, default: str, more: str = "") -> str:
    parts = (
        f"*{field.stage.capitalize()}.*" if field.stage else "",
        field.declared.about,
        field.declared.more,
        more,
    )
    meaning = " ".join(part for part in parts if part)
    cells = (f"`{name}`", field.kind.type_name(), default, meaning)
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


def _changes() -> Iterator[str]:
    listed = ", ".join(f"`{name}`" for name in may_change(JobSpec, with_lists=True))
    yield "| | May change |"
    yield "|---|---|"
    yield f"| while the job exists | {listed} |"
    early = ", ".join(f"`{name}`" for name in may_change_before_start(JobSpec))
    yield f"| while it is suspended and has never started | {early} as well |"
    yield "| once it is Succeeded or Failed | nothing of the spec; labels and annotations may |"
