"""Handlers of coordinators' operations."""

from __future__ import annotations

from typing import Any

import structlog

from di_server.access.authorizer import Authorizer
from di_server.access.grants import Grant
from di_server.coordination import requests
from di_server.coordination.listing import Listing
from di_server.coordination.operations import WriteOperation
from di_server.coordination.requests import Requester
from di_server.coordination.service import CoordinationService
from di_server.deadline import COORDINATION_SECONDS, Clock, Deadline
from di_server.rest.incoming import Caller, Incoming
from di_server.rest.operation import Operation
from di_server.retry_policy import RetryPolicy

_log = structlog.get_logger()


class CoordinationHandlers:
    """Handles every operation in the same steps, cheap refusals first."""

    def __init__(
        self,
        *,
        service: CoordinationService,
        authorizer: Authorizer,
        policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        self._service = service
        self._authorizer = authorizer
        self._policy = policy
        self._clock = clock

    def handle(self, operation: Operation, incoming: Incoming) -> Listing | list[Listing]:
        """Return the data of the response; raises Problems and API errors, which the application
        maps.
        """
        if isinstance(operation, WriteOperation):
            return self._change(operation, incoming)
        return self._list(operation, incoming)

    def _list(self, operation: Operation, incoming: Incoming) -> Listing | list[Listing]:
        asked = requests.query(incoming.query)
        deadline, caller = self._deadline(), incoming.caller
        if isinstance(asked, Requester):
            grant = self._admit(asked, operation, caller, deadline)
            return self._service.replicas(grant, asked, deadline)
        own = self._policy.run(
            lambda: self._authorizer.admit_to_all(asked, operation.verb, caller, deadline), deadline
        )
        return self._service.all(asked, own, deadline)

    def _change(self, operation: WriteOperation[Any], incoming: Incoming) -> Listing:
        body = incoming.body
        asking = requests.requester(body.get("namespace"), body.get("coordinator"))
        deadline = self._deadline()
        grant = self._admit(asking, operation, incoming.caller, deadline)
        data = operation.run(self._service, grant, asking, operation.read(body), deadline)
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
        return Deadline.after(self._clock, COORDINATION_SECONDS)

    def _admit(
        self, asking: Requester, operation: Operation, caller: Caller, deadline: Deadline
    ) -> Grant:
        # Each aggregator has a separate rate limit: all of them call every few seconds, and one
        # that is refused stops.
        return self._policy.run(
            lambda: self._authorizer.admit(
                asking.ref, operation.verb, caller, deadline, asking=asking.pod
            ),
            deadline,
        )
