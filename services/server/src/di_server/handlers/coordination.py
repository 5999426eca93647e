"""The operations of coordinators, from request to answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from flask import Request, Response

from di_server import coordinated_operations as operations
from di_server.deadline import COORDINATED_SECONDS, Clock, Deadline
from di_server.decisions.coordinated import requests
from di_server.decisions.coordinated.listing import Listing
from di_server.decisions.coordinated.requests import Requester
from di_server.decisions.job_id import JobRef
from di_server.envelope import success
from di_server.handlers.body import read_object
from di_server.handlers.jobs import caller_of
from di_server.operations import Operation
from di_server.services.coordination import Coordination
from di_server.services.gate import Caller, Gate
from di_server.services.grants import Grant
from di_server.services.limiter import Limiter
from di_server.services.patience import Patience

MAX_BODY: Final = 256 * 1024
"""Bytes; a list of all pods a job can have fits."""
_EVERY: Final = "*"
_log = structlog.get_logger()
_Write = Callable[[Grant, Requester, Mapping[str, Any], Deadline], Listing]


class CoordinationHandlers:
    """Handles every operation in the same steps, the cheap refusals first."""

    def __init__(
        self,
        *,
        service: Coordination,
        gate: Gate,
        limiter: Limiter,
        patience: Patience,
        clock: Clock,
    ) -> None:
        self._service = service
        self._gate = gate
        self._limiter = limiter
        self._patience = patience
        self._clock = clock
        self._writes: Mapping[Operation, _Write] = {
            operations.CREATE: self._create,
            operations.DELETE: self._delete,
            operations.REPLACE: self._replace,
        }

    def handle(self, operation: Operation, request: Request) -> Response:
        """Answer one request; raises Problems and API errors for the application to map."""
        if operation.body is None:
            data = self._list(operation, request)
        else:
            data = self._change(operation, request)
        return success(operation.message, data)

    def _list(self, operation: Operation, request: Request) -> Listing | list[Listing]:
        asked = requests.query(request.args.items(multi=True))
        deadline, caller = self._deadline(), caller_of(request)
        if isinstance(asked, Requester):
            grant = self._admit(asked, operation, caller, deadline)
            return self._service.replicas(grant, asked, deadline)
        own = self._patience.run(
            lambda: self._gate.admit_to_all(asked, operation.verb, caller, deadline), deadline
        )
        self._limiter.take(own.ref if own else JobRef(asked or _EVERY, _EVERY))
        return self._service.all(asked, own, deadline)

    def _change(self, operation: Operation, request: Request) -> Listing:
        body = read_object(request, MAX_BODY)
        asking = requests.requester(body.get("namespace"), body.get("coordinator"))
        deadline = self._deadline()
        grant = self._admit(asking, operation, caller_of(request), deadline)
        data = self._writes[operation](grant, asking, body, deadline)
        _log.info(
            operation.message,
            namespace=asking.ref.namespace,
            name=asking.ref.name,
            by=asking.pod,
            collectors=len(data["collectors"]),
            learners=len(data["learners"]),
        )
        return data

    def _deadline(self) -> Deadline:
        return Deadline.after(self._clock, COORDINATED_SECONDS)

    def _admit(
        self, asking: Requester, operation: Operation, caller: Caller, deadline: Deadline
    ) -> Grant:
        grant = self._patience.run(
            lambda: self._gate.admit(asking.ref, operation.verb, caller, deadline), deadline
        )
        # After the gate, or strangers could use up the share. Each aggregator has one of its
        # own: they all ask every few seconds, and one that is refused gives up.
        self._limiter.take(JobRef(asking.ref.namespace, asking.pod))
        return grant

    def _create(
        self, grant: Grant, asking: Requester, body: Mapping[str, Any], deadline: Deadline
    ) -> Listing:
        return self._service.add(grant, asking, requests.demand(body), deadline)

    def _delete(
        self, grant: Grant, asking: Requester, body: Mapping[str, Any], deadline: Deadline
    ) -> Listing:
        return self._service.remove(grant, asking, requests.demand(body), deadline)

    def _replace(
        self, grant: Grant, asking: Requester, body: Mapping[str, Any], deadline: Deadline
    ) -> Listing:
        return self._service.replace(grant, asking, requests.failed(body), deadline)
