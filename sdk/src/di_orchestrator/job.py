"""Who this pod is, by the variables that every pod of a job with tasks gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from di_orchestrator.errors import BadEnvironment, NotInJob

PORT = 22270
"""The port `di-port` of every pod, unless its template says another."""
HOLE = "localhost"
"""What stands in the lists for a pod that is not there."""


@dataclass(frozen=True)
class ProcessGroup:
    """The process group that the pod belongs to, as it was when the pod started.

    Attributes:
        master_address, master_port: where its first process listens.
        size, rank: of this pod in it; None where only who starts the processes knows (torchrun
            with several of them, or with members that come and go).
    """

    master_address: str
    master_port: int
    size: int | None
    rank: int | None


@dataclass(frozen=True)
class World:
    """Who belongs to a process group: one generation of it.

    Attributes:
        generation: grows with each world.
        is_formed: whether there is a world now; if not, the others are about to come.
        members: indexes of the pods within their task, by rank.
        master_address: of rank 0; empty without a world.
    """

    generation: int
    is_formed: bool
    members: tuple[int, ...]
    master_address: str


@dataclass(frozen=True)
class Job:
    """A pod's place in its job; outside a job that of a single pod without others.

    Attributes:
        is_inside: whether the program runs in a pod of a job with tasks.
        namespace, name: of the job.
        task, task_type: of the pod.
        rank: of the pod in the job.
        index: of the pod in its task.
        attempt: how many restarts the job had had when this pod was made; 0 for the first pods.
            A pod that was moved, or that a scaling made, has that of its time.
        replica_index, replica_rank, replica_size: which replica of the task, which pod of it, and
            how many pods it has.
        replica_leader: DNS name of the replica's first pod; empty where a replica is one pod.
        tier: `core` or `elastic` in a task that has both, else empty.
        node_kind: kind of the pod's node, if the allocator knows kinds, else empty.
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
    environment: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Job:
        """Read the variables.

        Raises:
            BadEnvironment: one is missing beside `DI_JOB_ID`, or does not hold what it should.
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
            environment=environment,
        )

    @property
    def id(self) -> str:
        """`<namespace>/<name>`; empty outside a job."""
        return f"{self.namespace}/{self.name}" if self.is_inside else ""

    @property
    def pod(self) -> str:
        """The name of this pod; empty outside a job."""
        if not self.is_inside:
            return ""
        if self.replica_leader:
            return f"{self.name}-{self.task}-{self.replica_index}-{self.replica_rank}"
        return f"{self.name}-{self.task}-{self.index}"

    @property
    def address(self) -> str:
        """The DNS name of this pod; `localhost` outside a job."""
        return self.addresses(self.task)[self.index] if self.is_inside else HOLE

    @property
    def is_leader(self) -> bool:
        """Whether this is the first pod of its task; true outside a job."""
        return self.index == 0

    @property
    def is_replica_leader(self) -> bool:
        """Whether this is the first pod of its replica; true where a replica is one pod."""
        return self.replica_rank == 0

    def addresses(self, task: str) -> tuple[str, ...]:
        """DNS names of a task's pods when this pod started, by index; empty outside a job.

        One that is not there is written `localhost`, where nothing listens. They are for programs
        that begin together; who follows scaling asks `di.peers` and `di.watch_peers`.

        Raises:
            BadEnvironment: the job had no such task.
        """
        if not self.is_inside:
            return ()
        variable = f"DI_{_variable(task)}_NODES"
        return _Reader(self.environment).names(variable)

    def count(self, task: str) -> int | None:
        """How many pods a task had when this pod started; None if the job had no such task."""
        variable = f"DI_{_variable(task)}_NODES"
        if not {variable, f"{variable}_FILE"} & self.environment.keys():
            return None
        return sum(name != HOLE for name in self.addresses(task))

    def service(self, task: str) -> str:
        """`<name>:<port>` of the Service of a task.

        Raises:
            NotInJob: the program does not run in a job.
            BadEnvironment: the task has no Service.
        """
        self._inside("the Service of a task")
        return _Reader(self.environment).text(f"DI_{_variable(task)}_SERVICE")

    def port(self, name: str = "di-port") -> int:
        """The number of a port that the task names; `di-port` is 22270, also outside a job.

        Raises:
            NotInJob, BadEnvironment: the pod was told no port of that name.
        """
        variable = f"DI_PORT_{_variable(name)}"
        if name == "di-port" and variable not in self.environment:
            return PORT
        self._inside(f"the port {name}")
        return _Reader(self.environment).number(variable)

    @property
    def process_group(self) -> ProcessGroup | None:
        """The group of this pod's processes; None without one, or if it has no framework.

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
        return ProcessGroup(
            read.text("MASTER_ADDR"),
            read.number("MASTER_PORT"),
            read.number("WORLD_SIZE") if "WORLD_SIZE" in self.environment else None,
            read.number("RANK") if "RANK" in self.environment else None,
        )

    def world(self) -> World | None:
        """The members of this pod's group by its file; None before the file is written.

        The file follows within a minute or so; `di.watch_worlds` follows at once.
        """
        path = self.environment.get("DI_GROUP_FILE")
        if not path:
            return None
        try:
            return world_of(json.loads(Path(path).read_text()))
        except (OSError, ValueError, LookupError, TypeError):
            # Not written yet, or about to be changed.
            return None

    def _inside(self, what: str) -> None:
        if not self.is_inside:
            raise NotInJob(
                f"{what} is known in a job only, and DI_JOB_ID is not set: submit the program as "
                "a DIJob, or ask `di.job().is_inside` first"
            )


def world_of(said: Mapping[str, Any]) -> World:
    """What the group's file and di-server say: members by rank, with or without their addresses.

    Raises:
        LookupError, TypeError: they do not say it so.
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
        """A list of pods, from the variable or from the file that one beside it names."""
        if (path := self.environment.get(f"{variable}_FILE")) is not None:
            try:
                return tuple(Path(path).read_text().strip().split(","))
            except OSError as error:
                raise self.wrong(f"{variable}_FILE", f"a file that can be read ({error})") from None
        return tuple(self.text(variable).split(","))


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
