"""The REST operations on the board of a job's members: paths, methods, shapes, parsers and
handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from di_server.access.grants import Grant
from di_server.deadline import Deadline
from di_server.members import requests
from di_server.members.entry import MAX_SAYS
from di_server.members.exchange import MAX_BODY
from di_server.members.requests import CHANGES, GENERATION, TASK, WAIT
from di_server.members.service import MemberService
from di_server.rest.incoming import Incoming
from di_server.rest.operation import Operation, Shape

T = TypeVar("T")

RESOURCE: Final = "members"
_POD: Final = "pod"
_SAYS: Final[Shape] = {
    "type": "object",
    "required": ["url"],
    "properties": {"url": {"type": "string", "description": "Where the member serves."}},
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberOperation(Operation, Generic[T]):
    """An operation on the members of a job."""

    read: Callable[[Incoming], T]
    """Parses a request; raises Malformed or OutOfBounds with the field."""
    run: Callable[[MemberService, Grant, T, Deadline], object]
    """Executes the operation; returns the data of the response, or Deferred."""

    def only(self, incoming: Incoming) -> str | None:
        """Return the pod in its path, which alone is allowed; None: any pod is.

        Raises:
            Malformed: no pod of a job has such a name.
        """
        return requests.pod_name(incoming.below) if self.below == _POD else None


PUT_MEMBER: Final = MemberOperation(
    name="putMember",
    method="PUT",
    resource=RESOURCE,
    below=_POD,
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
    read=lambda asked: (asked.below, requests.says(asked.body)),
    run=lambda service, grant, asked, deadline: service.put(grant, *asked, deadline),
)
LIST_MEMBERS: Final = MemberOperation(
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
    read=lambda asked: requests.members_request(asked.query),
    run=MemberService.list,
)
OPERATIONS: Final[tuple[MemberOperation[Any], ...]] = (PUT_MEMBER, LIST_MEMBERS)
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
"""Only for other replicas of di-server, so no document for clients has it."""
