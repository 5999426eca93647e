"""The environment of process groups, from the declaration of their framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from di_api import names
from di_api.field_error import items, mapping
from di_api.frameworks import FRAMEWORKS, Listed, Member
from di_api.spec import Task


def group_environment(
    task: Task,
    index: int,
    nodes: tuple[str, ...],
    tasks: Iterable[tuple[Task, tuple[str, ...]]] = (),
) -> Mapping[str, str]:
    """Return the variables of the pod at an index of its group.

    Args:
        nodes: the DNS names of the pods of its group.
        tasks: all tasks of the job, with the DNS names of their pods.
    """
    if task.process_group is None:
        return {}
    framework = task.process_group.framework
    member = Member(
        group=task.process_group,
        index=index,
        nodes=nodes,
        bounds=(task.min_replicas or 1, task.max_replicas or len(nodes)),
        port=_master_port(task.leader_template) or names.MASTER_PORT,
        task=task.name,
        cluster={
            each.name: Listed(nodes=pods, port=_master_port(each.leader_template))
            for each, pods in tasks
            if each.process_group is not None and each.process_group.framework is framework
        },
    )
    return FRAMEWORKS[framework].variables(member)


def _master_port(template: Mapping[str, Any]) -> int | None:
    """Return the port that a container of the template names for this."""
    containers = items(mapping(template.get("spec")).get("containers"))
    for container in map(mapping, containers):
        for port in map(mapping, items(container.get("ports"))):
            number = port.get("containerPort")
            if port.get("name") == names.MASTER_PORT_NAME and isinstance(number, int):
                return number
    return None
