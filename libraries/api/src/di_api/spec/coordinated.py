"""`spec.coordinated`: one coordinator pod, which requests all others while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from di_api.names import GPU_RESOURCE
from di_api.spec.bounds import MAX_INT64, MAX_REPLICAS
from di_api.spec.declared import Declared
from di_api.spec.kinds import Label, OneOf, PodTemplate, Quantities, Struct, Structs, Text, Whole
from di_api.spec.template import Template


class Role(StrEnum):
    """Role of a pod in a coordinated job; the value is part of the pod's name."""

    COORDINATOR = "coordinator"
    """Trains, and requests the other pods from di-server. When it ends, the job ends."""
    COLLECTOR = "collector"
    LEARNER = "learner"
    """A learner on one GPU or none."""
    DDP_LEARNER = "ddp-learner"
    """One part of a learner on several GPUs."""
    AGGREGATOR = "aggregator"
    """Represents the ddp learners of one learner to the coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePods:
    """The pods of one role."""

    template: Annotated[
        Template,
        Declared(
            kind=PodTemplate(is_loose=True),
            about="Template of the pods of this role, as core/v1 PodTemplateSpec.",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod that the coordinator requested."""

    name: Annotated[str, Declared(kind=Label(), about="Name of the pod and of its Service.")]
    role: Annotated[
        Role,
        Declared(
            kind=OneOf(Role, but=(Role.COORDINATOR,)),
            about="Role of the pod.",
        ),
    ]
    resources: Annotated[
        Mapping[str, str | int],
        Declared(
            kind=Quantities(most=16),
            about="Requests and limits of its main container.",
            more="They override those of the template.",
        ),
    ] = field(default_factory=dict)
    generation: Annotated[
        int,
        Declared(
            kind=Whole(0, MAX_INT64),
            about="Number of failed replicas that it replaces.",
            is_filled_in=False,
            absent="`0`",
        ),
    ] = 0
    aggregator: Annotated[
        str | None,
        Declared(
            kind=Label("replica"),
            about="For a ddp-learner, the aggregator in front of it.",
        ),
    ] = None

    @property
    def gpus(self) -> int:
        """Return the number of requested GPUs, 0 if none."""
        value = self.resources.get(GPU_RESOURCE, 0)
        return int(value) if str(value).isdecimal() else 0

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Replica:
        """Parse an entry of `spec.coordinated.replicas`. Raises KeyError, ValueError."""
        return cls(
            name=raw["name"],
            role=Role(raw["role"]),
            resources=raw.get("resources") or {},
            generation=raw.get("generation") or 0,
            aggregator=raw.get("aggregator"),
        )

    def dump(self) -> dict[str, Any]:
        """Return the entry of `spec.coordinated.replicas`."""
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
    """The value of `spec.coordinated`."""

    coordinator: Annotated[
        RolePods,
        Declared(
            kind=Struct(RolePods),
            about="Pods of one role.",
            more="Its `restartPolicy` is `Never` by default.",
        ),
    ]
    collector: Annotated[
        RolePods | None,
        Declared(
            kind=Struct(RolePods),
            about="Pods of one role.",
            more="Without a template the coordinator cannot request any.",
        ),
    ] = None
    learner: Annotated[
        RolePods | None,
        Declared(
            kind=Struct(RolePods),
            about="Pods of one role.",
            more="Without a template the coordinator cannot request any.",
        ),
    ] = None
    priority_class_name: Annotated[
        str | None, Declared(kind=Text(), about="Priority class of the coordinator's pod.")
    ] = None
    replicas: Annotated[
        tuple[Replica, ...],
        Declared(
            kind=Structs(Replica, "replica", MAX_REPLICAS),
            about="Replicas that the coordinator requested. Only di-server writes it.",
            more="The ddp learners of an aggregator are in the order of their ranks.",
            may_change=True,
        ),
    ] = ()

    def template(self, role: Role) -> Template | None:
        """Return the job's template for a role; None if it has none, or the role is AGGREGATOR."""
        match role:
            case Role.COORDINATOR:
                return self.coordinator.template
            case Role.COLLECTOR:
                return self.collector.template if self.collector else None
            case Role.LEARNER | Role.DDP_LEARNER:
                return self.learner.template if self.learner else None
            case Role.AGGREGATOR:
                return None

    def group(self, aggregator: str) -> tuple[Replica, ...]:
        """Return the ddp learners behind an aggregator, by rank; the first one is their master."""
        return tuple(replica for replica in self.replicas if replica.aggregator == aggregator)
