"""Rules about the names of tasks' ports, which must be unique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api import names
from di_api.field_error import FieldError, items, mapping
from di_api.spec.task_service import PortScope
from di_api.validation.repeated import names_of, repeated_names
from di_api.validation.tasks import Tasks, task_names

OURS: Final = (names.DI_PORT_NAME, names.MASTER_PORT_NAME)
"""Port names whose numbers have a meaning of their own."""


def repeated_ports(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for repeated port names, and for names of ours."""
    ports = names_of(task.get("ports"))
    yield from repeated_names(ports, f"{path}.ports", "another port of the task")
    for index, name in ports.items():
        if name in OURS:
            message = "is a port of another meaning; declare it in the template"
            yield FieldError(f"{path}.ports[{index}].name", name, message)


def ports_of_containers(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for ports that a container of the template already has."""
    pod = mapping(mapping(task.get("template")).get("spec"))
    taken = {
        name
        for container in items(pod.get("containers"))
        for name in names_of(mapping(container).get("ports")).values()
    }
    for index, name in names_of(task.get("ports")).items():
        if name in taken and name not in OURS:
            message = "is the name of a port of a container in the template already"
            yield FieldError(f"{path}.ports[{index}].name", name, message)


def confused_variables(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for ports with the same variable."""
    of_job: dict[str, str] = {}
    for path, task in tasks:
        for index, port in enumerate(map(mapping, items(task.get("ports")))):
            if port.get("scope") == PortScope.JOB and isinstance(port.get("name"), str):
                of_job.setdefault(port["name"], f"{path}.ports[{index}]")
    of_tasks = {
        variable(task): task
        for task in task_names(tasks)
        for variable in (names.task_nodes_env, names.task_nodes_file_env, names.task_service_env)
    }
    for path, task in tasks:
        ports = items(task.get("ports"))
        for index, name in names_of(ports).items():
            where = f"{path}.ports[{index}].name"
            if name in of_job and mapping(ports[index]).get("scope") != PortScope.JOB:
                message = f"is the name of {of_job[name]} already, a port of scope Job"
                yield FieldError(where, name, message)
            if (variable := names.port_env(name)) in of_tasks:
                message = f"{variable} is a variable of task {of_tasks[variable]} already"
                yield FieldError(where, name, message)
