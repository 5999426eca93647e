"""Handlers of operations on members."""

from __future__ import annotations

from typing import Any

from di_server.access.authorizer import Authorizer
from di_server.deadline import Clock, Deadline
from di_server.members.exchange import read_news
from di_server.members.operations import MemberOperation
from di_server.members.service import MemberService
from di_server.model.references import JobRef
from di_server.rest.incoming import Incoming


class MemberHandlers:
    """Handles every operation in the same steps, cheap refusals first."""

    def __init__(self, *, service: MemberService, authorizer: Authorizer, clock: Clock) -> None:
        self._service = service
        self._authorizer = authorizer
        self._clock = clock

    def handle(self, operation: MemberOperation[Any], ref: JobRef, incoming: Incoming) -> object:
        """Return the data of the response, or Deferred; raises Problems and API errors."""
        deadline = Deadline.after(self._clock)
        grant = self._authorizer.admit_member(
            ref, operation.verb, incoming.caller, deadline, only=operation.only(incoming)
        )
        return operation.run(self._service, grant, operation.read(incoming), deadline)

    def exchange(self, incoming: Incoming) -> object:
        """Return the data of the response to another server."""
        self._authorizer.admit_peer(incoming.caller, Deadline.after(self._clock))
        return self._service.exchange(read_news(incoming.body))
