"""`spec.tasks[].processGroup`: pods whose programs form one process group."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from di_api.spec.declared import Declared
from di_api.spec.kinds import Flag, OneOf, Whole

LAST_CALL_SECONDS: Final = 60
"""Default of `lastCallSeconds`."""


class Framework(StrEnum):
    """Framework whose variables the pods of a group get."""

    TORCH = "torch"
    JAX = "jax"
    TENSORFLOW = "tensorflow"
    PADDLE = "paddle"
    XGBOOST = "xgboost"
    MPI = "mpi"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """How the programs of a task's pods find each other; ranks are the pods' local indexes."""

    framework: Annotated[
        Framework,
        Declared(
            kind=OneOf(Framework),
            about="Framework whose variables the pods get; `torch` includes those of torchrun.",
            more="[The variables](../how-to/process-groups.md#variables).",
        ),
    ] = Framework.NONE
    processes_per_replica: Annotated[
        int,
        Declared(
            kind=Whole(1, 1024),
            about="Processes in each pod. With more than 1, `torchrun` or another launcher "
            "starts them.",
            more="[Not with every framework](../how-to/process-groups.md#frameworks).",
        ),
    ] = 1
    elastic: Annotated[
        bool,
        Declared(
            kind=Flag(),
            about="True lets members join and leave while the others continue with each new world. "
            "Needs minReplicas and maxReplicas.",
            more="[How](../how-to/process-groups.md#elastic-groups). "
            "[Not with every framework](../how-to/process-groups.md#frameworks).",
        ),
    ] = False
    last_call_seconds: Annotated[
        int,
        Declared(
            kind=Whole(0),
            about="Seconds after the last join until a world is formed without the missing "
            "members.",
            more="At most `deadlineSeconds`.",
        ),
    ] = LAST_CALL_SECONDS
    deadline_seconds: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Seconds that forming a world can take; with fewer members than minReplicas "
            "there "
            "is no world.",
        ),
    ] = 600
