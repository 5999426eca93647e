"""The pod's place in its job, from the variables of every pod of a job with tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from di_orchestrator.errors import BadEnvironment, NotInJob

PORT = 22270
"""Number of `di-port` in every pod, unless its template sets another."""
HOLE = "localhost"
"""Placeholder in the lists for a missing pod."""
_RANKS = (
    ("WORLD_SIZE", "RANK", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"),
)
"""Variables of a process: the size of its group, its rank, and its rank in its pod. The first are
the operator's or torchrun's, the others those that OpenMPI, and MPICH and Intel's MPI set.
"""


@dataclass(frozen=True)
class ProcessGroup:
    """The process group of the pod at the pod's start.

    Attributes:
        master_address, master_port: address of its first process.
        size, rank: of this pod in it; None if only the launcher knows them (torchrun with several
            processes, or with elastic membership).
    """

    master_address: str
    master_port: int
    size: int | None
    rank: int | None


@dataclass(frozen=True)
class World:
    """One generation of a process group with its members.

    Attributes:
        generation: grows with each world.
        is_formed: whether there is a world now; if not, members are still joining.
        members: indexes of the pods within their task, by rank.
        master_address: of rank 0; empty without a world.
    """

    generation: int
    is_formed: bool
    members: tuple[int, ...]
    master_address: str


@dataclass(frozen=True)
class Job:
    """A pod's place in its job; outside a job that of a single pod.

    Attributes:
        is_inside: whether the program runs in a pod of a job with tasks.
        namespace, name: of the job.
        uid: of the job, which no other run of the same name has; empty in pods of an earlier
            operator.
        task, task_type: of the pod.
        rank: of the pod in the job.
        index: of the pod in its task.
        attempt: number of the job's restarts when this pod was created; 0 for the first pods. A pod
            that was moved, or added by scaling, has the number at that time.
        replica_index, replica_rank, replica_size: index of the replica in the task, index of the
            pod in it, and its number of pods.
        replica_leader: DNS name of the replica's first pod; empty if a replica is one pod.
        tier: `core` or `elastic` in a task with both, else empty.
        node_kind: type of the pod's node, if the allocator knows it, else empty.
    """

    is_inside: bool = False
    namespace: str = ""
    name: str = ""
    task: str = ""
    task_type: str = ""
    rank: int = 0
    index: int = 0
    attempt: int = 0
    replica_index: int = 0
    replica_rank: int = 0
    replica_size: int = 1
    replica_leader: str = ""
    tier: str = ""
    node_kind: str = ""
    uid: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Job:
        """Read the variables.

        Raises:
            BadEnvironment: one is missing although `DI_JOB_ID` is set, or has an invalid value.
        """
        if "DI_JOB_ID" not in environment:
            return cls(environment=environment)
        read = _Reader(environment)
        namespace, slash, name = read.text("DI_JOB_ID").partition("/")
        if not (namespace and slash and name):
            raise read.wrong("DI_JOB_ID", "the job as <namespace>/<name>")
        index = read.number("DI_TASK_RANK")
        size = read.number("DI_REPLICA_SIZE", 1)
        return cls(
            is_inside=True,
            namespace=namespace,
            name=name,
            task=read.text("DI_TASK_NAME"),
            task_type=environment.get("DI_TASK_TYPE", ""),
            rank=read.number("DI_RANK"),
            index=index,
            attempt=read.number("DI_RESTARTS", 0),
            replica_index=read.number("DI_REPLICA_INDEX", index),
            replica_rank=read.number("DI_REPLICA_RANK", 0),
            replica_size=size,
            replica_leader=environment.get("DI_REPLICA_LEADER", ""),
            tier=environment.get("DI_TIER", ""),
            node_kind=environment.get("DI_NODE_KIND", ""),
            uid=environment.get("DI_JOB_UID", ""),
            environment=environment,
        )

    @property
    def id(self) -> str:
        """Return `<namespace>/<name>`; empty outside a job."""
        return f"{self.namespace}/{self.name}" if self.is_inside else ""

    @property
    def pod(self) -> str:
        """Return the name of this pod; empty outside a job."""
        if not self.is_inside:
            return ""
        if self.replica_leader:
            return f"{self.name}-{self.task}-{self.replica_index}-{self.replica_rank}"
        return f"{self.name}-{self.task}-{self.index}"

    @property
    def address(self) -> str:
        """Return the DNS name of this pod; `localhost` outside a job."""
        return self.addresses(self.task)[self.index] if self.is_inside else HOLE

    @property
    def is_leader(self) -> bool:
        """Return whether this is the first pod of its task; true outside a job."""
        return self.index == 0

    @property
    def is_replica_leader(self) -> bool:
        """Return whether this is the first pod of its replica; true if a replica is one pod."""
        return self.replica_rank == 0

    def addresses(self, task: str) -> tuple[str, ...]:
        """Return the DNS names of a task's pods when this pod started, by index; empty outside a
        job.

        A missing pod is written `localhost`, where nothing listens. The names are for programs
        whose pods start together; a program that follows scaling uses `di.peers` and
        `di.watch_peers`.

        Raises:
            BadEnvironment: the job had no such task.
        """
        if not self.is_inside:
            return ()
        variable = f"DI_{_variable(task)}_NODES"
        return _Reader(self.environment).names(variable)

    def count(self, task: str) -> int | None:
        """Return the number of a task's pods when this pod started; None if the job had no such
        task.
        """
        variable = f"DI_{_variable(task)}_NODES"
        if not {variable, f"{variable}_FILE"} & self.environment.keys():
            return None
        return sum(name != HOLE for name in self.addresses(task))

    def service(self, task: str) -> str:
        """Return `<name>:<port>` of the Service of a task.

        Raises:
            NotInJob: the program does not run in a job.
            BadEnvironment: the task has no Service.
        """
        self._inside("the Service of a task")
        return _Reader(self.environment).text(f"DI_{_variable(task)}_SERVICE")

    def port(self, name: str = "di-port") -> int:
        """Return the number of a port that the task names; `di-port` is 22270, also outside a job.

        Raises:
            NotInJob, BadEnvironment: the pod has no port with that name.
        """
        variable = f"DI_PORT_{_variable(name)}"
        if name == "di-port" and variable not in self.environment:
            return PORT
        self._inside(f"the port {name}")
        return _Reader(self.environment).number(variable)

    @property
    def process_group(self) -> ProcessGroup | None:
        """Return the process group of this pod; None without one, or if it has no framework.

        Raises:
            BadEnvironment: its variables are not those of the operator.
        """
        read = _Reader(self.environment)
        if "JAX_COORDINATOR_ADDRESS" in self.environment:
            address, _, port = read.text("JAX_COORDINATOR_ADDRESS").rpartition(":")
            if not (address and port.isdigit()):
                raise read.wrong("JAX_COORDINATOR_ADDRESS", "<name>:<port>")
            size, rank = read.number("JAX_NUM_PROCESSES"), read.number("JAX_PROCESS_ID")
            return ProcessGroup(address, int(port), size, rank)
        if "MASTER_ADDR" not in self.environment:
            return None
        own_size, own_rank, _ = self._ranks
        return ProcessGroup(
            read.text("MASTER_ADDR"),
            read.number("MASTER_PORT"),
            read.number(own_size) if own_size in self.environment else None,
            read.number(own_rank) if own_rank in self.environment else None,
        )

    @property
    def is_first_process(self) -> bool:
        """Return whether this process saves and reports: rank 0 of the process group, or without
        one the first pod of the task. With `podsPerReplica` it is in the first replica.

        Raises:
            BadEnvironment: the variables of the process group are not those of the operator.
        """
        group = self.process_group
        if group is None or group.rank is None:
            return self.is_leader
        return group.rank == 0 and not (self.replica_leader and self.replica_index)

    @property
    def is_first_in_pod(self) -> bool:
        """Return whether this is the first of the group's processes in this pod."""
        return self.environment.get(self._ranks[2], "0") == "0"

    @property
    def _ranks(self) -> tuple[str, str, str]:
        return next((names for names in _RANKS if names[1] in self.environment), _RANKS[0])

    def world(self) -> World | None:
        """Return the present world of this pod's group from its file; None before the file exists.

        The file is updated within about a minute; `di.watch_worlds` is faster.
        """
        path = self.environment.get("DI_GROUP_FILE")
        if not path:
            return None
        try:
            return world_of(json.loads(Path(path).read_text()))
        except (OSError, ValueError, LookupError, TypeError):
            # Not written yet, or being replaced.
            return None

    def _inside(self, what: str) -> None:
        if not self.is_inside:
            raise NotInJob(
                f"{what} is known in a job only, and DI_JOB_ID is not set: submit the program as "
                "a DIJob, or ask `di.job().is_inside` first"
            )


def world_of(said: Mapping[str, Any]) -> World:
    """Return the world in the group's file or in di-server's response: members by rank, with or
    without addresses.

    Raises:
        LookupError, TypeError: the data has another form.
    """
    members = (each["index"] if isinstance(each, Mapping) else each for each in said["members"])
    return World(
        generation=int(said["generation"]),
        is_formed=said["state"] == "Formed",
        members=tuple(int(index) for index in members),
        master_address=str(said.get("masterAddress", "")),
    )


@dataclass(frozen=True)
class _Reader:
    environment: Mapping[str, str]

    def wrong(self, name: str, expected: str) -> BadEnvironment:
        found = self.environment.get(name)
        held = "is not set" if found is None else f"is {found!r}"
        return BadEnvironment(
            f"{name} {held}, and should be {expected}: the operator sets it in pods of a DIJob; "
            "does the template, or the program's start, set or unset it?"
        )

    def text(self, name: str) -> str:
        found = self.environment.get(name)
        if not found:
            raise self.wrong(name, "set")
        return found

    def number(self, name: str, default: int | None = None) -> int:
        found = self.environment.get(name)
        if found is None and default is not None:
            return default
        if found is None or not (found.isascii() and found.isdigit()):
            raise self.wrong(name, "a whole number")
        return int(found)

    def names(self, variable: str) -> tuple[str, ...]:
        """Return a list of pods, from the variable or from the file that a second variable
        names.
        """
        if (path := self.environment.get(f"{variable}_FILE")) is not None:
            try:
                return tuple(Path(path).read_text().strip().split(","))
            except OSError as error:
                raise self.wrong(f"{variable}_FILE", f"a file that can be read ({error})") from None
        return tuple(self.text(variable).split(","))


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
