"""The operations on jobs, from request to answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from flask import Request, Response

from di_server import operations
from di_server.deadline import Clock, Deadline
from di_server.decisions import profilings
from di_server.decisions.job_id import parse_job_id
from di_server.decisions.ledger import retry_key
from di_server.envelope import success
from di_server.handlers.body import read_change, read_object
from di_server.operations import Operation
from di_server.services.gate import Caller, Gate
from di_server.services.grants import Grant
from di_server.services.jobs import JobService
from di_server.services.limiter import Limiter

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A request that passed the gate."""

    grant: Grant
    method: str
    body: Mapping[str, Any]
    idempotency_key: str | None
    deadline: Deadline


def caller_of(request: Request) -> Caller:
    """Who sent a request, as far as it tells."""
    return Caller(
        authorization=request.headers.get("Authorization"),
        # Never X-Forwarded-For: anybody may send it.
        address=request.remote_addr or "",
    )


class JobHandlers:
    """Handles every operation in the same steps, the cheap refusals first."""

    def __init__(self, *, service: JobService, gate: Gate, limiter: Limiter, clock: Clock) -> None:
        self._service = service
        self._gate = gate
        self._limiter = limiter
        self._clock = clock
        self._handlers: Mapping[Operation, Callable[[_Call], object]] = {
            operations.LIST_REPLICAS: self._list,
            operations.ADD_REPLICAS: self._add,
            operations.REMOVE_REPLICAS: self._remove,
            operations.REPORT_PROFILINGS: self._report,
        }

    def handle(self, operation: Operation, job: str, request: Request) -> Response:
        """Answer one request; raises Problems and API errors for the application to map."""
        ref = parse_job_id(job)
        body = read_object(request) if operation.body is not None else {}
        deadline = Deadline.after(self._clock)
        grant = self._gate.admit(ref, operation.verb, caller_of(request), deadline)
        # After the gate, or strangers could use up the share of a job.
        self._limiter.take(ref)
        call = _Call(
            grant=grant,
            method=operation.method,
            body=body,
            idempotency_key=request.headers.get("Idempotency-Key"),
            deadline=deadline,
        )
        return success(operation.message, self._handlers[operation](call))

    def _list(self, call: _Call) -> list[str]:
        return self._service.replicas(call.grant, call.deadline)

    def _add(self, call: _Call) -> dict[str, Any]:
        return self._scale(call, sign=1)

    def _remove(self, call: _Call) -> dict[str, Any]:
        return self._scale(call, sign=-1)

    def _scale(self, call: _Call, *, sign: int) -> dict[str, Any]:
        change = read_change(dict(call.body), sign=sign)
        key = retry_key(call.idempotency_key, call.method, call.body)
        answer = self._service.scale(call.grant, change, key, call.deadline)
        ref = call.grant.ref
        _log.info(
            "scaled",
            namespace=ref.namespace,
            name=ref.name,
            task=answer.task,
            replicas=answer.replicas,
            delta=change.delta,
        )
        return dataclasses.asdict(answer)

    def _report(self, call: _Call) -> None:
        self._service.report(call.grant, profilings.profile(call.body), call.deadline)
