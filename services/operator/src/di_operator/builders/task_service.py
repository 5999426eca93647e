"""The Service of a task, and the labels by which it selects pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api import names
from di_api.spec import Selected, ServicePort, Task, TaskService
from di_operator.builders.metadata import job_labels, object_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskServiceRecipe:
    """The Service of a task that is not built yet."""

    job: Mapping[str, Any]
    task: str
    service: TaskService

    def build(self) -> dict[str, Any]:
        """Return the Service's body."""
        return task_service_body(self.job, self.task, self.service)


def task_service_body(job: Mapping[str, Any], task: str, service: TaskService) -> dict[str, Any]:
    """Return the Service of a task: a cluster IP for those of its pods that are ready."""
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
    """Return the labels that put the pod at a local index behind the task's Service and count it as
    a replica for autoscalers; none if it is not selected.

    Replicas of several pods get the last label only when all their pods are ready.
    """
    if task.service is None or not is_behind(task, index):
        return _counted(task, index)
    marks = _marks(task.service)
    if task.has_pod_groups:
        del marks[names.LABEL_IN_SERVICE]
    return marks | _counted(task, index)


def is_behind(task: Task, index: int) -> bool:
    """Return whether the task's Service lists the pod at a local index when it is ready."""
    if task.service is None:
        return False
    return task.is_leader(index) or task.service.select is Selected.ALL


def service_environment(
    job: Mapping[str, Any], tasks: tuple[Task, ...], service_domain: str
) -> dict[str, str]:
    """Return the variables with the addresses of the tasks' Services, for all pods of a job."""
    metadata = job["metadata"]
    found = {}
    for task in tasks:
        # A Service without ports exists only if no webhook and no CRD checked the spec.
        if task.service is not None and task.service.ports:
            service = names.task_service_name(metadata["name"], task.name)
            host = names.service_fqdn(service, metadata["namespace"], service_domain)
            found[names.task_service_env(task.name)] = f"{host}:{task.service.ports[0].port}"
    return found


def _counted(task: Task, index: int) -> dict[str, str]:
    """Return the label by which an autoscaler counts one pod of each replica."""
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
