"""Jobs in the queues of Kueue: which place they have, and what Kueue says of them."""

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
    """Where a job stands among all Workloads that wait in its LocalQueue; the first is 1."""

    place: int
    of: int


Places = Mapping[str, Place]
"""By UID of the job."""


def is_queued(job: Object) -> bool:
    """Whether a job waits in its queue."""
    return condition_of(job, "Queued").get("status") == "True"


def words_of(job: Object) -> str:
    """What is missing, as Kueue says it; empty for a job that waits in no queue."""
    return str(condition_of(job, "Queued").get("message") or "") if is_queued(job) else ""


def places(workloads: Iterable[Object]) -> Places:
    """The places of jobs, in Kueue's order: by priority, then by age.

    Of a job that has several Workloads the first in the queue counts.
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
    """In which queue a job waits and at which place, as far as that is known; empty: in none."""
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
