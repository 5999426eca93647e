"""Places of jobs in queues of Kueue, and Kueue's messages about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from di_api.conditions import condition_of
from di_api.field_error import items, mapping
from di_api.queued import queue_of
from di_api.timestamps import parse_time

Object = Mapping[str, Any]
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a job among all waiting Workloads of its LocalQueue; the first is 1."""

    place: int
    of: int


Places = Mapping[str, Place]
"""Places by UID of the job."""


def is_queued(job: Object) -> bool:
    """Return whether a job waits in its queue."""
    return condition_of(job, "Queued").get("status") == "True"


def words_of(job: Object) -> str:
    """Return Kueue's message about what is missing; empty for a job that waits in no queue."""
    return str(condition_of(job, "Queued").get("message") or "") if is_queued(job) else ""


def places(workloads: Iterable[Object]) -> Places:
    """Return the places of jobs in Kueue's order: by priority, then by age.

    For a job with several Workloads the first in the queue counts.
    """
    queues: dict[tuple[str, str], list[tuple[float, datetime, str]]] = defaultdict(list)
    for workload in workloads:
        spec, metadata = mapping(workload.get("spec")), mapping(workload.get("metadata"))
        if not _waits(workload):
            continue
        priority = spec.get("priority")
        made = parse_time(metadata.get("creationTimestamp")) or _LAST
        queue = str(metadata.get("namespace") or ""), str(spec.get("queueName") or "")
        rank = -float(priority) if isinstance(priority, int) else 0.0
        queues[queue].append((rank, made, _owner(metadata)))
    found: dict[str, Place] = {}
    for waiting in queues.values():
        for index, (_, _, owner) in enumerate(sorted(waiting), start=1):
            found.setdefault(owner, Place(place=index, of=len(waiting)))
    return found


def in_queue(job: Object, places: Places) -> str:
    """Return the queue and the place of a waiting job, as far as known; empty without a queue."""
    if not is_queued(job):
        return ""
    place = places.get(str(mapping(job.get("metadata")).get("uid") or ""))
    where = f"{place.place} of {place.of} " if place else ""
    return f"{where}in queue {queue_of(job)}"


def _waits(workload: Object) -> bool:
    is_active = mapping(workload.get("spec")).get("active") is not False
    has_quota = condition_of(workload, "QuotaReserved").get("status") == "True"
    is_over = condition_of(workload, "Finished").get("status") == "True"
    return is_active and not has_quota and not is_over


def _owner(metadata: Object) -> str:
    for owner in map(mapping, items(metadata.get("ownerReferences"))):
        if owner.get("controller") is True:
            return str(owner.get("uid") or "")
    return ""
