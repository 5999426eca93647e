"""The numbers of the ports that tasks ask for.

No number is remembered: it follows from the job's UID, the pod's rank and the order of the names.
So it is the same whoever computes it, pods of one job differ as long as their ports fit into the
range, and two jobs begin in different places of it. Where pods share the network of their node the
number is a host port as well, of which the cluster's scheduler lets a node have one pod only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from di_api import names
from di_api.spec import PortScope, Task

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPorts:
    """What the ports of one job's pods are computed from."""

    uid: str = ""
    of_job: Mapping[str, int] = field(default_factory=dict)
    """By name, those of scope Job."""
    stride: int = 0
    """The most ports of scope Pod that one task has."""

    @classmethod
    def of(cls, uid: str, tasks: Iterable[Task]) -> JobPorts:
        """Of a job with that UID."""
        all_tasks = tuple(tasks)
        shared = {name for task in all_tasks for name in _names(task, PortScope.JOB)}
        return cls(
            uid=uid,
            of_job=_numbers(names.JOB_PORTS, uid, 0, sorted(shared)),
            stride=max((len(_names(task, PortScope.POD)) for task in all_tasks), default=0),
        )

    def listened(self, task: Task, rank: int) -> dict[str, int]:
        """The ports that a pod of the task listens on, by name in the order of the spec."""
        own = self._of_pod(task, rank)
        return {port.name: own.get(port.name) or self.of_job[port.name] for port in task.ports}

    def environment(self, task: Task, rank: int) -> dict[str, str]:
        """The variables of such a pod: its own ports, and those that all pods are told."""
        found = {**self.of_job, **self._of_pod(task, rank)}
        return {names.port_env(name): str(number) for name, number in found.items()}

    def _of_pod(self, task: Task, rank: int) -> dict[str, int]:
        own = sorted(_names(task, PortScope.POD))
        return _numbers(names.POD_PORTS, self.uid, rank * self.stride, own)


def with_task_ports(
    containers: Sequence[dict[str, Any]], ports: Mapping[str, int], *, on_host: bool
) -> Sequence[dict[str, Any]]:
    """Declare the ports on ``di-container``, or on the first container without one; `on_host`, also
    as ports of the node."""
    if not containers or not ports:
        return containers
    main = next((c for c in containers if c.get("name") == names.DI_CONTAINER), containers[0])
    added = [
        {
            "name": name,
            "containerPort": number,
            **({"hostPort": number} if on_host else {}),
            "protocol": "TCP",
        }
        for name, number in ports.items()
    ]
    main["ports"] = [*(main.get("ports") or ()), *added]
    return containers


def _names(task: Task, scope: PortScope) -> list[str]:
    return [port.name for port in task.ports if port.scope is scope]


def _numbers(among: range, uid: str, offset: int, wanted: Sequence[str]) -> dict[str, int]:
    first = crc32(uid.encode()) + offset
    return {name: among[(first + place) % len(among)] for place, name in enumerate(wanted)}
