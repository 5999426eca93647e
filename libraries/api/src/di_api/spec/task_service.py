"""`spec.tasks[].service`: the Service by which clients reach a task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from di_api.spec.declared import Declared
from di_api.spec.kinds import Label, OneOf, Structs, TargetPort, Whole

MAX_SERVICE_PORTS: Final = 16
HIGHEST_PORT: Final = 65535


class Protocol(StrEnum):
    """Protocol of a port, as in core/v1."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class Selected(StrEnum):
    """The pods of a task that its Service selects."""

    ALL = "All"
    LEADERS = "Leaders"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    """A port of the Service of a task."""

    name: Annotated[str, Declared(kind=Label(), about="Name of the port, unique in the Service.")]
    port: Annotated[int, Declared(kind=Whole(1, HIGHEST_PORT), about="Port of the Service.")]
    target_port: Annotated[
        int | str | None,
        Declared(
            kind=TargetPort(HIGHEST_PORT),
            about="Port of the pods, a number or the name of a container's port.",
            absent="`port`",
        ),
    ] = None
    protocol: Annotated[Protocol, Declared(kind=OneOf(Protocol), about="As in a Service.")] = (
        Protocol.TCP
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskService:
    """The Service of a task."""

    ports: Annotated[
        tuple[ServicePort, ...],
        Declared(
            kind=Structs(ServicePort, "port", MAX_SERVICE_PORTS, least=1),
            about="Ports of the Service. The first one is in the variable `DI_<TASK>_SERVICE` of "
            "the pods.",
        ),
    ]
    select: Annotated[
        Selected,
        Declared(
            kind=OneOf(Selected),
            about="Selected pods: all of the task, or the first of each replica.",
        ),
    ] = Selected.ALL
