"""The operations on jobs with tasks, from request to data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from di_server.access.authorizer import Authorizer
from di_server.access.grants import Grant
from di_server.deadline import Clock, Deadline
from di_server.jobs import operations, requests
from di_server.jobs.idempotency import idempotency_key
from di_server.jobs.scaling import ScalingRequest
from di_server.jobs.service import JobService
from di_server.model.references import JobRef
from di_server.rest.incoming import Incoming
from di_server.rest.operation import Operation
from di_server.rest.tagged import Tagged

_log = structlog.get_logger()
_Handler = Callable[[Grant, Incoming, Deadline], object]


class JobHandlers:
    """Handles every operation in the same steps, the cheap refusals first."""

    def __init__(self, *, service: JobService, authorizer: Authorizer, clock: Clock) -> None:
        self._service = service
        self._authorizer = authorizer
        self._clock = clock
        self._handlers: Mapping[Operation, _Handler] = {
            operations.LIST_REPLICAS: self._list,
            operations.ADD_REPLICAS: self._add,
            operations.SET_REPLICAS: self._set,
            operations.REMOVE_REPLICAS: self._remove,
            operations.LIST_TASKS: self._tasks,
            operations.LIST_PODS: self._pods,
            operations.REPORT_PROFILINGS: self._report,
            operations.SHOW_GROUP: self._group,
            operations.SHOW_PROFILINGS: self._reported,
        }

    def handle(self, operation: Operation, ref: JobRef, incoming: Incoming) -> object:
        """The data of the response; raises Problems and API errors for the application to map."""
        deadline = Deadline.after(self._clock)
        grant = self._authorizer.admit(ref, operation.verb, incoming.caller, deadline)
        return self._handlers[operation](grant, incoming, deadline)

    def _list(self, grant: Grant, _incoming: Incoming, deadline: Deadline) -> list[str]:
        return self._service.replicas(grant, deadline)

    def _tasks(self, grant: Grant, _incoming: Incoming, deadline: Deadline) -> list[dict[str, Any]]:
        return self._service.tasks(grant, deadline)

    def _pods(self, grant: Grant, incoming: Incoming, deadline: Deadline) -> Tagged:
        asked = requests.pods_request(incoming.below, incoming.query, incoming.known)
        return self._service.pods(grant, asked, deadline)

    def _add(self, grant: Grant, incoming: Incoming, deadline: Deadline) -> dict[str, Any]:
        asked = requests.addition(incoming.body)
        return self._scale(operations.ADD_REPLICAS, asked, grant, incoming, deadline)

    def _set(self, grant: Grant, incoming: Incoming, deadline: Deadline) -> dict[str, Any]:
        asked = requests.setting(incoming.body)
        return self._scale(operations.SET_REPLICAS, asked, grant, incoming, deadline)

    def _remove(self, grant: Grant, incoming: Incoming, deadline: Deadline) -> dict[str, Any]:
        asked = requests.removal(incoming.body)
        return self._scale(operations.REMOVE_REPLICAS, asked, grant, incoming, deadline)

    def _scale(
        self,
        operation: Operation,
        asked: ScalingRequest,
        grant: Grant,
        incoming: Incoming,
        deadline: Deadline,
    ) -> dict[str, Any]:
        key = idempotency_key(
            incoming.idempotency_key, operation.method, incoming.body, caller=grant.caller
        )
        result = self._service.scale(grant, asked, key, deadline, incoming.trace)
        ref = grant.ref
        _log.info(
            "scaled",
            namespace=ref.namespace,
            name=ref.name,
            task=result.task,
            replicas=result.replicas,
            delta=asked.delta,
            to=asked.to,
        )
        return dataclasses.asdict(result)

    def _report(
        self, grant: Grant, incoming: Incoming, deadline: Deadline
    ) -> dict[str, int] | None:
        advised = self._service.report(grant, requests.profilings(incoming.body), deadline)
        return None if advised is None else {"batchSize": advised}

    def _reported(self, grant: Grant, _incoming: Incoming, deadline: Deadline) -> Mapping[str, Any]:
        return self._service.reported(grant, deadline)

    def _group(self, grant: Grant, incoming: Incoming, _deadline: Deadline) -> dict[str, Any]:
        asked = requests.group_request(incoming.below, incoming.query)
        # It may wait for longer than others have for their work.
        return self._service.group(grant, asked)
