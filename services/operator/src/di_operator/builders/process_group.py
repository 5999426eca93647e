"""The environment of process groups, by framework.

torchrun reads each of its options from `PET_<OPTION>` and sets the variables of torch.distributed
for the processes that it starts (torch/distributed/argparse_util.py, run.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from di_api import names
from di_api.field_error import items, mapping
from di_api.spec import Framework, ProcessGroup, Task

MAX_RESTARTS: Final = 10
"""How often torchrun restarts in a pod after a member was lost; new members do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of a process group."""

    group: ProcessGroup
    index: int
    """Rank in the group: the local index of the pod, or its index in the replica if that has
    several.
    """
    replicas: int
    bounds: tuple[int, int]
    """Smallest and largest number of replicas of an elastic group."""
    master: str
    """DNS name of the pod with rank 0."""
    port: int
    """Port of the pod with rank 0."""


Variables: TypeAlias = Callable[[Member], Mapping[str, str]]


def group_environment(task: Task, index: int, nodes: tuple[str, ...]) -> Mapping[str, str]:
    """Return the variables of the pod at an index of its group; `nodes` are the DNS names of its
    pods.
    """
    if task.process_group is None:
        return {}
    member = Member(
        group=task.process_group,
        index=index,
        replicas=len(nodes),
        bounds=(task.min_replicas or 1, task.max_replicas or len(nodes)),
        master=nodes[0],
        port=_master_port(task.leader_template),
    )
    return FRAMEWORKS[task.process_group.framework](member)


def _torch(member: Member) -> Mapping[str, str]:
    if member.group.elastic:
        return _elastic_torch(member)
    processes = member.group.processes_per_replica
    address = {names.ENV_MASTER_ADDR: member.master, names.ENV_MASTER_PORT: str(member.port)}
    torchrun = {
        "NNODES": str(member.replicas),
        "NPROC_PER_NODE": str(processes),
        "NODE_RANK": str(member.index),
        **address,
    }
    variables = {f"{names.PREFIX_TORCHRUN}{key}": value for key, value in torchrun.items()}
    if processes > 1:
        # Only the launcher of the processes knows their local ranks.
        return address | variables
    alone = {
        names.ENV_WORLD_SIZE: str(member.replicas),
        names.ENV_GROUP_RANK: str(member.index),
        names.ENV_LOCAL_WORLD_SIZE: "1",
        names.ENV_LOCAL_RANK: "0",
    }
    return address | alone | variables


def _elastic_torch(member: Member) -> Mapping[str, str]:
    """Return the variables for torchrun, which finds the members through a store in the first pod
    and assigns ranks at each rendezvous.
    """
    group = member.group
    configuration = {
        "is_host": "true" if member.index == 0 else "false",
        "join_timeout": group.deadline_seconds,
        "last_call_timeout": group.last_call_seconds,
        # Includes the time until the first pod is ready.
        "read_timeout": group.deadline_seconds,
    }
    least, most = member.bounds
    torchrun = {
        "NNODES": f"{least}:{most}",
        "NPROC_PER_NODE": str(group.processes_per_replica),
        "RDZV_BACKEND": "c10d",
        "RDZV_ENDPOINT": f"{member.master}:{member.port}",
        "RDZV_CONF": ",".join(f"{key}={value}" for key, value in configuration.items()),
        "MAX_RESTARTS": str(MAX_RESTARTS),
    }
    return {f"{names.PREFIX_TORCHRUN}{key}": value for key, value in torchrun.items()}


def _jax(member: Member) -> Mapping[str, str]:
    return {
        names.ENV_JAX_COORDINATOR: f"{member.master}:{member.port}",
        names.ENV_JAX_PROCESSES: str(member.replicas),
        names.ENV_JAX_PROCESS: str(member.index),
    }


FRAMEWORKS: Final[Mapping[Framework, Variables]] = {
    Framework.TORCH: _torch,
    Framework.JAX: _jax,
    Framework.NONE: lambda _: {},
}
"""Variables by framework; a framework is a row here and a member of `Framework`."""


def _master_port(template: Mapping[str, Any]) -> int:
    """Return the port that a container of the template names for this, else the default."""
    containers = items(mapping(template.get("spec")).get("containers"))
    for container in map(mapping, containers):
        for port in map(mapping, items(container.get("ports"))):
            number = port.get("containerPort")
            if port.get("name") == names.MASTER_PORT_NAME and isinstance(number, int):
                return number
    return names.MASTER_PORT
