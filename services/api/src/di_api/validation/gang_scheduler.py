"""Schedulers that bind the pods of a job together: what does not go with that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError, mapping
from di_api.spec.job import GangScheduler

_FIELD: Final = "spec.scheduling.gangScheduler"


def contended_gangs(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Jobs whose pods somebody else binds, or that do not come together."""
    scheduler = mapping(spec.get("scheduling")).get("gangScheduler")
    if scheduler in (None, GangScheduler.NONE):
        return
    if spec.get("preemptible") is True:
        message = "does not go with preemptible: the allocator chooses the node of each pod"
        yield FieldError(_FIELD, scheduler, message)
    if mapping(spec.get("scheduling")).get("gang") is True:
        message = (
            "does not go with scheduling.gang: the allocator would hold back pods that this "
            "scheduler waits for; choose one of the two"
        )
        yield FieldError(_FIELD, scheduler, message)
    if spec.get("coordinated") is not None:
        yield FieldError(_FIELD, scheduler, "the pods of a coordinator come one by one")


def queue_of_nobody(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """A queue where nobody reads it."""
    scheduling = mapping(spec.get("scheduling"))
    queue = scheduling.get("queue")
    if queue is not None and scheduling.get("gangScheduler") != GangScheduler.VOLCANO:
        message = "goes with gangScheduler volcano; other schedulers have no queues"
        yield FieldError("spec.scheduling.queue", queue, message)
