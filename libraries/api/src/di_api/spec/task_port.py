"""`spec.tasks[].ports[]`: ports whose numbers the operator chooses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from di_api.spec.declared import Declared
from di_api.spec.kinds import OneOf, PortName

MAX_TASK_PORTS: Final = 16
"""Maximum number of ports of one task. With MAX_TASKS it bounds those of a job; `names.JOB_PORTS`
has a number for each of them.
"""


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
