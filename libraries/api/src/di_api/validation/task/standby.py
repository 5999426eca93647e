"""Rules about standby pods: what they cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, items, mapping
from di_api.names import standby_task
from di_api.spec.process_group import Framework
from di_api.spec.task_service import PortScope
from di_api.validation.size import pods_per_replica, standby_pods
from di_api.validation.tasks import Tasks


def contended_standbys(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for standby pods in a job whose pods the allocator chooses, or releases
    together.
    """
    if spec.get("preemptible") is True:
        message = "does not go with preemptible: the allocator gives nodes to replicas alone"
    elif mapping(spec.get("scheduling")).get("gang") is True:
        message = "does not go with scheduling.gang, whose pods start all together"
    else:
        return
    for path, task in tasks:
        if number := standby_pods(task):
            yield FieldError(f"{path}.standby", number, message)


def names_of_standbys(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for tasks named like another task's standby pods: `a-standby-1` is one of
    `a`.
    """
    taken = {
        standby_task(name): path
        for path, task in tasks
        if standby_pods(task) and isinstance(name := task.get("name"), str)
    }
    for path, task in tasks:
        name = task.get("name")
        if isinstance(name, str) and name in taken:
            message = f"the pods that stand by for {taken[name]} are named so; choose another name"
            yield FieldError(f"{path}.name", name, message)


def wrong_standby(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for fields of a raw task (with defaults) that need the pod's place in its
    environment, which a standby pod does not know in advance.
    """
    number, where = standby_pods(task), f"{path}.standby"
    if not number:
        return
    group = task.get("processGroup")
    if pods_per_replica(task) > 1:
        message = "does not go with podsPerReplica above 1: a replica is replaced as a whole"
        yield FieldError(where, number, message)
    if task.get("elastic") is not None:
        message = "does not go with elastic: the job runs without whoever is lost there"
        yield FieldError(where, number, message)
    if isinstance(group, Mapping) and not _takes_members(group):
        message = (
            "needs a processGroup that is elastic and of framework none, whose members learn their "
            "ranks from its generation, or none at all"
        )
        yield FieldError(where, number, message)
    if task.get("nodeCheck") is not None:
        message = "does not go with nodeCheck, whose pods know each other by their ranks"
        yield FieldError(where, number, message)
    for index, port in enumerate(map(mapping, items(task.get("ports")))):
        if port.get("scope") == PortScope.POD:
            message = "must be Job in a task with standby: numbers of scope Pod follow from ranks"
            yield FieldError(f"{path}.ports[{index}].scope", port["scope"], message)


def _takes_members(group: Mapping[str, Any]) -> bool:
    return group.get("elastic") is True and group.get("framework") == Framework.NONE
