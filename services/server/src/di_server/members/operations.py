"""The REST operations on the members' board of a job: their paths, methods and shapes."""

from __future__ import annotations

from typing import Final

from di_server.members.entry import MAX_SAYS
from di_server.members.exchange import MAX_BODY
from di_server.rest.operation import Operation, Shape

RESOURCE: Final = "members"
TASK: Final = "task"
GENERATION: Final = "generation"
WAIT: Final = "wait"
CHANGES: Final = "changes"
_SAYS: Final[Shape] = {
    "type": "object",
    "required": ["url"],
    "properties": {"url": {"type": "string", "description": "Where the member serves."}},
}

PUT_MEMBER: Final = Operation(
    name="putMember",
    method="PUT",
    resource=RESOURCE,
    below="pod",
    verb="update",
    summary="Say where this pod serves, and what else the others are to know of it.",
    message="successfully put member",
    body=_SAYS,
    max_body=MAX_SAYS,
    errors={
        409: "The pod is ending.",
        413: f"The body is longer than {MAX_SAYS} bytes.",
        422: "The job has a coordinator, or its members say too much together.",
    },
    data={
        "type": "object",
        "required": ["heartbeatSeconds", "lifetimeSeconds"],
        "properties": {
            "heartbeatSeconds": {"type": "number", "description": "When to send it again."},
            "lifetimeSeconds": {"type": "number", "description": "When it is gone otherwise."},
        },
    },
)
LIST_MEMBERS: Final = Operation(
    name="listMembers",
    method="GET",
    resource=RESOURCE,
    verb="get",
    summary="What the members of a job say; waits for another generation.",
    message="successfully get members",
    body=None,
    query=(TASK, GENERATION, WAIT, CHANGES),
    errors={422: "No such task, a coordinator's job, or a wait past its bound."},
    data={
        "type": "object",
        "required": ["generation", "complete", "members", "gone"],
        "properties": {
            "generation": {"type": "string", "description": "Equal where the members are."},
            "complete": {"type": "boolean", "description": "Else what has changed since."},
            "members": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pod", "uid", "task", "says"],
                    "properties": {
                        "pod": {"type": "string"},
                        "uid": {"type": "string"},
                        "task": {"type": "string"},
                        "says": _SAYS,
                    },
                },
            },
            "gone": {"type": "array", "items": {"type": "string"}},
        },
    },
)
OPERATIONS: Final = (PUT_MEMBER, LIST_MEMBERS)
EXCHANGE: Final = Operation(
    name="exchangeMembers",
    method="POST",
    resource=RESOURCE,
    verb="update",
    summary="What di-servers tell each other.",
    message="successfully exchange members",
    body={"type": "object"},
    max_body=MAX_BODY,
    data={"type": "object"},
)
"""For other replicas of di-server alone, so it is in no document for clients."""
