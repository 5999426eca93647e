"""`spec.tasks[].nodeCheck`: a check of the node that the pods of a task run first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from di_api.spec.declared import Declared
from di_api.spec.kinds import OneOf, Text, Texts, Whole


class NodeCheckAction(StrEnum):
    """Action for a node that is much slower than the others."""

    AVOID_NODE = "AvoidNode"
    NOTIFY = "Notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """The check of a task's nodes before its program starts."""

    image: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Image of the check.",
            absent="that of the task's first container",
        ),
    ] = None
    command: Annotated[
        tuple[str, ...],
        Declared(
            kind=Texts("argument", most=64, longest=4096),
            about="Program of the check and its arguments. It writes its duration in seconds to "
            '/dev/termination-log, as `{"seconds": 1.5}`.',
            absent="a matrix product and an exchange of data, measured by `python3`",
        ),
    ] = ()
    wait_seconds: Annotated[
        int,
        Declared(
            kind=Whole(0, 3600),
            about="Seconds that the pods of the task wait for each other, to exchange data. 0: no "
            "exchange.",
        ),
    ] = 300
    action: Annotated[
        NodeCheckAction,
        Declared(
            kind=OneOf(NodeCheckAction),
            about="Action for nodes that took more than twice the median. `AvoidNode` moves their "
            "pods, and excludes the nodes for the task for an hour. A Warning event is "
            "recorded in either case.",
        ),
    ] = NodeCheckAction.AVOID_NODE
