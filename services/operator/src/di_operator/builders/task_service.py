"""The Service of a task, and what makes a pod one of those behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api import names
from di_api.spec import Selected, ServicePort, Task, TaskService
from di_operator.builders.metadata import job_labels, object_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskServiceRecipe:
    """The Service of a task, still to be built."""

    job: Mapping[str, Any]
    task: str
    service: TaskService

    def build(self) -> dict[str, Any]:
        """The Service's body."""
        return task_service_body(self.job, self.task, self.service)


def task_service_body(job: Mapping[str, Any], task: str, service: TaskService) -> dict[str, Any]:
    """Return the Service of a task: a cluster IP before those of its pods that are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(job, names.task_service_name(job["metadata"]["name"], task)),
        "spec": {
            "selector": {
                **job_labels(job),
                names.LABEL_TASK_NAME: task,
                **_marks(service),
            },
            "ports": [_port(port) for port in service.ports],
        },
    }


def service_labels(task: Task, index: int) -> dict[str, str]:
    """The labels by which the pod at a local index is behind the task's Service, from when it is
    made, and counted as a replica by those who scale the task; none if it is not, or there is none.

    Those of replicas of several pods lack the last one until all pods of theirs are ready.
    """
    if task.service is None or not is_behind(task, index):
        return _counted(task, index)
    marks = _marks(task.service)
    if task.has_pod_groups:
        del marks[names.LABEL_IN_SERVICE]
    return marks | _counted(task, index)


def is_behind(task: Task, index: int) -> bool:
    """Whether the pod at a local index is one that the task's Service lists when it is ready."""
    if task.service is None:
        return False
    return task.is_leader(index) or task.service.select is Selected.ALL


def service_environment(
    job: Mapping[str, Any], tasks: tuple[Task, ...], service_domain: str
) -> dict[str, str]:
    """The variables that tell all pods of a job where the Services of its tasks are."""
    metadata = job["metadata"]
    found = {}
    for task in tasks:
        # Without ports is only one that no webhook and no CRD has seen.
        if task.service is not None and task.service.ports:
            service = names.task_service_name(metadata["name"], task.name)
            host = names.service_fqdn(service, metadata["namespace"], service_domain)
            found[names.task_service_env(task.name)] = f"{host}:{task.service.ports[0].port}"
    return found


def _counted(task: Task, index: int) -> dict[str, str]:
    """Of replicas of several pods an autoscaler is to count one each."""
    is_counted = task.scalable and task.has_pod_groups and task.is_leader(index)
    return {names.LABEL_REPLICA_LEADER: names.MARKED} if is_counted else {}


def _marks(service: TaskService) -> dict[str, str]:
    marks = {names.LABEL_IN_SERVICE: names.MARKED}
    if service.select is Selected.LEADERS:
        marks[names.LABEL_REPLICA_LEADER] = names.MARKED
    return marks


def _port(port: ServicePort) -> dict[str, Any]:
    return {
        "name": port.name,
        "port": port.port,
        "targetPort": port.port if port.target_port is None else port.target_port,
        "protocol": port.protocol.value,
    }
