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
    port: Annotated[
        int, Declared(kind=Whole(1, HIGHEST_PORT), about="Where the Service is reached.")
    ]
    target_port: Annotated[
        int | str | None,
        Declared(
            kind=TargetPort(HIGHEST_PORT),
            about="Where the pods listen, a number or the name of a port of a container.",
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
            about="Its ports. The first is the one in the pods' variable `DI_<TASK>_SERVICE`.",
        ),
    ]
    select: Annotated[
        Selected,
        Declared(
            kind=OneOf(Selected),
            about="Which pods are behind it: all of the task, or the first of each replica.",
        ),
    ] = Selected.ALL
