"""Rules about node checks: what they cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import ABSENT, FieldError, mapping
from di_api.names import NODE_CHECK
from di_api.spec.node_check import NodeCheckAction
from di_api.validation.repeated import names_of
from di_api.validation.tasks import Tasks


def contended_nodes(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for checks that would exclude nodes that the allocator chooses."""
    if spec.get("preemptible") is not True:
        return
    for path, task in tasks:
        check = task.get("nodeCheck")
        if isinstance(check, Mapping) and check.get("action") != NodeCheckAction.NOTIFY:
            action = check.get("action")
            yield FieldError(
                f"{path}.nodeCheck.action",
                ABSENT if action is None else action,
                "must be Notify, for the allocator chooses the nodes of a preemptible job",
            )


def taken_names(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for containers with the name of the check's container."""
    for path, task in tasks:
        if not isinstance(task.get("nodeCheck"), Mapping):
            continue
        pod = mapping(mapping(task.get("template")).get("spec"))
        for field in ("containers", "initContainers"):
            for index, name in names_of(pod.get(field)).items():
                if name == NODE_CHECK:
                    where = f"{path}.template.spec.{field}[{index}].name"
                    yield FieldError(where, name, "is the name of the container of the nodeCheck")
