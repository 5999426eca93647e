"""Rules about gang schedulers: what they cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, mapping
from di_api.spec.job import GangScheduler
from di_api.validation.scheduling.placed_together import placed_by_others


def contended_gangs(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for jobs whose pods another component binds, or that do not start
    together.
    """
    if mapping(spec.get("scheduling")).get("gangScheduler") in (None, GangScheduler.NONE):
        return
    yield from placed_by_others(
        "gangScheduler",
        spec,
        with_gang="the allocator would hold back pods that this scheduler waits for; choose one of "
        "the two",
    )


def queue_of_nobody(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a scheduler's queue without the scheduler that reads it."""
    scheduling = mapping(spec.get("scheduling"))
    queue = scheduling.get("queue")
    if queue is not None and scheduling.get("gangScheduler") != GangScheduler.VOLCANO:
        message = "goes with gangScheduler volcano; other schedulers have no queues"
        yield FieldError("spec.scheduling.queue", queue, message)
