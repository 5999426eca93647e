"""The numbers of the ports that tasks request.

No number is stored: it is computed from the job's UID, the pod's rank and the order of the names.
So the result is always the same, pods of one job differ as long as their ports fit into the range,
and two jobs start at different numbers. On the host network the number is a host port too, and the
cluster's scheduler allows one such pod per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from di_api import names
from di_api.pods.main_container import main_container
from di_api.spec import PortScope, Task

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPorts:
    """The inputs from which the ports of one job's pods are computed."""

    uid: str = ""
    of_job: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the ports of scope Job, by name."""
    stride: int = 0
    """Largest number of ports of scope Pod that one task has."""

    @classmethod
    def of(cls, uid: str, tasks: Iterable[Task]) -> JobPorts:
        """Return the ports of the job with this UID."""
        all_tasks = tuple(tasks)
        shared = {name for task in all_tasks for name in _names(task, PortScope.JOB)}
        return cls(
            uid=uid,
            of_job=_numbers(names.JOB_PORTS, uid, 0, sorted(shared)),
            stride=max((len(_names(task, PortScope.POD)) for task in all_tasks), default=0),
        )

    def listened(self, task: Task, rank: int) -> dict[str, int]:
        """Return the ports that a pod of the task listens on, by name in the order of the spec."""
        own = self._of_pod(task, rank)
        return {port.name: own.get(port.name) or self.of_job[port.name] for port in task.ports}

    def environment(self, task: Task, rank: int) -> dict[str, str]:
        """Return the variables of such a pod: its own ports, and the ports of scope Job."""
        found = {**self.of_job, **self._of_pod(task, rank)}
        return {names.port_env(name): str(number) for name, number in found.items()}

    def _of_pod(self, task: Task, rank: int) -> dict[str, int]:
        own = sorted(_names(task, PortScope.POD))
        return _numbers(names.POD_PORTS, self.uid, rank * self.stride, own)


def with_ports(
    containers: Sequence[dict[str, Any]], ports: Mapping[str, int], *, on_host: bool
) -> Sequence[dict[str, Any]]:
    """Declare the default port and the task's ports on the main container; with `on_host` the
    task's ports as host ports too.

    The default port is left out if a container declares ``di-port`` or its number, and next to
    other ports on the host network: it would allow only one such pod per node.
    """
    main = main_container(containers)
    if main is None:
        return containers
    has_default = _has_default_port(containers) or (on_host and bool(ports))
    default = {} if has_default else {names.DI_PORT_NAME: names.DI_PORT}
    added = [
        {
            "name": name,
            "containerPort": number,
            **({"hostPort": number} if on_host and name in ports else {}),
            "protocol": "TCP",
        }
        for name, number in (*default.items(), *ports.items())
    ]
    if added:
        main["ports"] = [*(main.get("ports") or ()), *added]
    return containers


def _has_default_port(containers: Sequence[Object]) -> bool:
    return any(
        port.get("name") == names.DI_PORT_NAME or port.get("containerPort") == names.DI_PORT
        for container in containers
        for port in container.get("ports") or ()
    )


def _names(task: Task, scope: PortScope) -> list[str]:
    return [port.name for port in task.ports if port.scope is scope]


def _numbers(among: range, uid: str, offset: int, wanted: Sequence[str]) -> dict[str, int]:
    first = crc32(uid.encode()) + offset
    return {name: among[(first + place) % len(among)] for place, name in enumerate(wanted)}
