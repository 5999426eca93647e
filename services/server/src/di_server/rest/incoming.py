"""A request as the operations take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flask import Request

from di_server.model.references import JobRef
from di_server.rest.body import read_object
from di_server.rest.job_id import parse_job_id
from di_server.rest.operation import Operation

TRACE: Final = "di.trace"
"""Key of a request's environ: its span, where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What a request says about its sender."""

    authorization: str | None
    address: str
    encrypted: bool
    """Whether it came over HTTPS, so that nobody on the way has read its token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What came over HTTP, read and within bounds; nobody has asked yet what it means."""

    method: str
    caller: Caller
    body: dict[str, Any]
    """Empty where the operation has none."""
    below: str
    """What its path names below the resource; empty where that is the end."""
    query: tuple[tuple[str, str], ...]
    """Pairs as they came."""
    idempotency_key: str | None
    known: frozenset[str]
    """Tags of what it has already."""
    trace: str | None = None
    """The span of the request, a traceparent; None: it has none."""


def receive(request: Request, operation: Operation, below: str = "") -> Incoming:
    """Read a request.

    Raises:
        Malformed, TooLarge, SlowRequest: what is wrong with its body.
    """
    return Incoming(
        method=operation.method,
        caller=Caller(
            authorization=request.headers.get("Authorization"),
            # Never X-Forwarded-For: anybody may send it.
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
        Malformed, TooLarge, SlowRequest: what is wrong with the id or the body.
    """
    return parse_job_id(job), receive(request, operation, below)
