"""The coordinator architecture: one coordinator pod asks for all the others while it trains.

What `spec.coordinated` holds, and every name and address that follows from it. The server decides
about replicas and answers with their addresses before they exist, the operator makes them, so
both must agree to the letter; that is why it is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import DI_CONTAINER, DI_PORT_NAME, GPU_RESOURCE, MAX_LABEL

Template = Mapping[str, Any]
"""A core/v1 PodTemplateSpec as the user wrote it."""


class Role(StrEnum):
    """What a pod of a coordinated job is for; the value is part of its name."""

    COORDINATOR = "coordinator"
    """Trains, and asks di-server for the others. Its end is the job's."""
    COLLECTOR = "collector"
    LEARNER = "learner"
    """On one GPU or none."""
    DDP_LEARNER = "ddp-learner"
    """A part of a learner on several GPUs."""
    AGGREGATOR = "aggregator"
    """Stands before the ddp learners of one learner, as if it were that learner."""


DEFAULT_PORTS: Final[Mapping[Role, int]] = {
    Role.COLLECTOR: 22270,
    Role.LEARNER: 22271,
    Role.DDP_LEARNER: 22271,
    Role.AGGREGATOR: 22272,
    Role.COORDINATOR: 22273,
}
"""Where DI-engine listens unless the template names a `di-port`."""
PORT_VARIABLES: Final[Mapping[Role, str]] = {
    Role.COLLECTOR: "COLLECTOR_PORT",
    Role.LEARNER: "LEARNER_PORT",
    Role.DDP_LEARNER: "LEARNER_PORT",
    Role.AGGREGATOR: "AGGREGATOR_PORT",
    Role.COORDINATOR: "COORDINATOR_PORT",
}
"""The variable that tells a pod its own port."""

MAX_REPLICAS: Final = 2048
"""Most replicas a coordinator may have; the job carries the list of them to every watcher."""
SUFFIX_LENGTH: Final = 5
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, as in the API server's generated names."""
LONGEST_JOB_NAME: Final = MAX_LABEL - len(f"-{Role.DDP_LEARNER.value}-") - SUFFIX_LENGTH
"""Of a coordinated job, so that every name made from it is a DNS label."""

_GENERATED: Final = re.compile(
    rf"(?P<job>.+)-(?P<role>aggregator)-[a-z0-9]{{{SUFFIX_LENGTH}}}", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod that the coordinator has asked for."""

    name: str
    role: Role
    resources: Mapping[str, str | int] = field(default_factory=dict)
    """Requests and limits by resource name, quantities; over those of the template."""
    generation: int = 0
    """How many replicas reported as failed it stands in for."""
    aggregator: str | None = None
    """Of a ddp learner: the aggregator before it."""

    @property
    def gpus(self) -> int:
        """Whole GPUs asked for, 0 if none."""
        value = self.resources.get(GPU_RESOURCE, 0)
        return int(value) if str(value).isdecimal() else 0

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Replica:
        """Read an entry of `spec.coordinated.replicas`. Raises KeyError, ValueError."""
        return cls(
            name=raw["name"],
            role=Role(raw["role"]),
            resources=raw.get("resources") or {},
            generation=raw.get("generation") or 0,
            aggregator=raw.get("aggregator"),
        )

    def dump(self) -> dict[str, Any]:
        """The entry of `spec.coordinated.replicas`."""
        entry: dict[str, Any] = {"name": self.name, "role": self.role.value}
        if self.resources:
            entry["resources"] = dict(self.resources)
        if self.generation:
            entry["generation"] = self.generation
        if self.aggregator is not None:
            entry["aggregator"] = self.aggregator
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """`spec.coordinated`."""

    coordinator: Template
    collector: Template | None = None
    learner: Template | None = None
    priority_class_name: str | None = None
    """Of the coordinator's pod."""
    replicas: tuple[Replica, ...] = ()
    """Written by the server; the ddp learners of an aggregator are in the order of their ranks."""

    def template(self, role: Role) -> Template | None:
        """The job's own template for a role; None: it has none, or the role is AGGREGATOR."""
        match role:
            case Role.COORDINATOR:
                return self.coordinator
            case Role.COLLECTOR:
                return self.collector
            case Role.LEARNER | Role.DDP_LEARNER:
                return self.learner
            case Role.AGGREGATOR:
                return None

    def group(self, aggregator: str) -> tuple[Replica, ...]:
        """The ddp learners behind an aggregator, by rank; the first one is their master."""
        return tuple(replica for replica in self.replicas if replica.aggregator == aggregator)


def is_coordinated(job: Mapping[str, Any]) -> bool:
    """Whether a raw job has a coordinator."""
    spec = job.get("spec")
    return isinstance(spec, Mapping) and isinstance(spec.get("coordinated"), Mapping)


def coordinator_name(job: str) -> str:
    """Name of a job's coordinator pod and of its Service."""
    return f"{job}-{Role.COORDINATOR.value}"


def replica_name(job: str, role: Role, suffix: str) -> str:
    """Name of a replica's pod and of its Service; `suffix` is SUFFIX_LENGTH characters."""
    return f"{job}-{role.value}-{suffix}"


def job_of(pod: str) -> str | None:
    """The job that a coordinator or aggregator pod of that name would belong to."""
    job, dash, role = pod.rpartition("-")
    if dash and job and role == Role.COORDINATOR.value:
        return job
    found = _GENERATED.fullmatch(pod)
    return found["job"] if found else None


def port_of(template: Template | None, role: Role) -> int:
    """Where a pod of that role listens: the port its template names, or the default."""
    number = named_port((template or {}).get("spec"))
    return DEFAULT_PORTS[role] if number is None else number


def named_port(spec: object) -> int | None:
    """The `di-port` of the `di-container` in a pod's spec of any shape, None if it has none."""
    for container in _objects(spec, "containers"):
        if container.get("name") == DI_CONTAINER:
            for port in _objects(container, "ports"):
                number = port.get("containerPort")
                if port.get("name") == DI_PORT_NAME and isinstance(number, int):
                    return number
    return None


def address(pod: str, namespace: str, port: int) -> str:
    """`<pod>.<namespace>:<port>`: clients cut the last label and expect one colon."""
    return f"{pod}.{namespace}:{port}"


def _objects(owner: object, key: str) -> Iterable[Mapping[str, Any]]:
    return (each for each in items(mapping(owner).get(key)) if isinstance(each, Mapping))
