"""Handlers of operations on jobs with tasks."""

from __future__ import annotations

from typing import Any

from di_server.access.authorizer import Authorizer
from di_server.deadline import Clock, Deadline
from di_server.jobs.operations import JobOperation
from di_server.jobs.service import JobService
from di_server.model.references import JobRef
from di_server.rest.incoming import Incoming


class JobHandlers:
    """Authorizes a request, parses it and calls the service; cheap refusals come first."""

    def __init__(self, *, service: JobService, authorizer: Authorizer, clock: Clock) -> None:
        self._service = service
        self._authorizer = authorizer
        self._clock = clock

    def handle(self, operation: JobOperation[Any], ref: JobRef, incoming: Incoming) -> object:
        """Return the data of the response; raises Problems and API errors, which the application
        maps.
        """
        deadline = Deadline.after(self._clock)
        caller, verb = incoming.caller, operation.verb
        if operation.is_frequent:
            grant = self._authorizer.admit_member(ref, verb, caller, deadline, only=None)
        else:
            grant = self._authorizer.admit(ref, verb, caller, deadline)
        return operation.run(self._service, grant, operation.read(incoming), deadline)
