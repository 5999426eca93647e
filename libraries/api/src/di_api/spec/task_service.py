"""`spec.tasks[].service`, the Service by which clients reach a task, and `spec.tasks[].ports[]`,
ports whose numbers the operator chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from di_api.spec.declared import Declared
from di_api.spec.kinds import Label, OneOf, PortName, Structs, TargetPort, Whole

MAX_SERVICE_PORTS: Final = 16
HIGHEST_PORT: Final = 65535
MAX_TASK_PORTS: Final = 16
"""Maximum number of ports of one task. With MAX_TASKS it bounds those of a job; `names.JOB_PORTS`
has a number for each of them.
"""


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


class PortScope(StrEnum):
    """The pods among which a port has the same number."""

    POD = "Pod"
    JOB = "Job"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPort:
    """A port that the pods of a task listen on."""

    name: Annotated[
        str,
        Declared(
            kind=PortName(),
            about="Name of the port, in the container and in `DI_PORT_<NAME>`.",
        ),
    ]
    scope: Annotated[
        PortScope,
        Declared(
            kind=OneOf(PortScope),
            about="`Pod` gives each pod its own number, `Job` one number to all tasks of the job, "
            "which every pod has in a variable.",
        ),
    ] = PortScope.POD
