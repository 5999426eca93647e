"""The parsed form of a request for operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flask import Request

from di_server.model.references import JobRef
from di_server.rest.body import read_object
from di_server.rest.job_id import parse_job_id
from di_server.rest.operation import Operation

TRACE: Final = "di.trace"
"""Key in a request's environment: its span, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The request's data about its sender."""

    authorization: str | None
    address: str
    encrypted: bool
    """Whether it came over HTTPS, so that its token was not revealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A parsed request within the limits; its meaning is not checked yet."""

    method: str
    caller: Caller
    body: dict[str, Any]
    """Empty if the operation has none."""
    below: str
    """The part of its path after the resource; empty if there is none."""
    query: tuple[tuple[str, str], ...]
    """Pairs of the query, unchanged."""
    idempotency_key: str | None
    known: frozenset[str]
    """Tags of the data that the client has."""
    trace: str | None = None
    """The span of the request, a traceparent; None: it has none."""


def receive(request: Request, operation: Operation, below: str = "") -> Incoming:
    """Read a request.

    Raises:
        Malformed, TooLarge, SlowRequest: its body is invalid, too long or late.
    """
    return Incoming(
        method=operation.method,
        caller=Caller(
            authorization=request.headers.get("Authorization"),
            # Never X-Forwarded-For: any client can send it.
            address=request.remote_addr or "",
            encrypted=request.is_secure,
        ),
        body=read_object(request, operation.max_body) if operation.body is not None else {},
        below=below,
        query=tuple(request.args.items(multi=True)),
        idempotency_key=request.headers.get("Idempotency-Key"),
        known=frozenset(request.if_none_match.as_set(include_weak=True)),
        trace=request.environ.get(TRACE),
    )


def receive_for(
    job: str, request: Request, operation: Operation, below: str
) -> tuple[JobRef, Incoming]:
    """Read a request about the job whose id is in its path.

    Raises:
        Malformed, TooLarge, SlowRequest: the id is invalid, or the body is invalid, too long or
            late.
    """
    return parse_job_id(job), receive(request, operation, below)
