"""Waiting jobs: the reason, since when, and the expected start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.queued import queue_of
from di_api.timestamps import parse_time
from di_api.wording import span
from di_cli.views.ends import End
from di_cli.views.jobs import gpus_asked, row
from di_cli.views.queued import Place, is_queued
from di_cli.views.times import local

Object = Mapping[str, Any]

HEADER: Final = ("NAME", "WAITS FOR", "PRIORITY", "PODS", "GPUS", "WAITING", "STARTS")
HEADER_WIDE: Final = (*HEADER[:-2], "SINCE", "STARTS", "MESSAGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A waiting job.

    Attributes:
        reason: one word.
        since: when it began to wait.
        seconds: duration of the wait so far.
        queue: its queue of Kueue; empty: none.
        place: its place there; None: unknown.
        starts: the end of another job after which it would start; None: unknown.
        next_look: whether it starts at the allocator's next round.
    """

    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    since: datetime | None
    seconds: float
    high: bool
    pods: int
    gpus: int
    queue: str = ""
    place: Place | None = None
    starts: End | None = None
    next_look: bool = False


def waiting(
    jobs: Iterable[Object],
    now: datetime,
    starts: Mapping[str, End | None],
    places: Mapping[str, Place] = {},
) -> list[Waiting]:
    """Return the waiting jobs in the order of allocators: by priority, then age.

    `starts` has by UID the end after which a job starts; None: at the next round.
    """
    found = (_read(job, now, starts, places) for job in jobs)
    return sorted(
        (each for each in found if each is not None),
        key=lambda each: (not each.high, -each.seconds, each.namespace, each.name),
    )


def is_waiting(job: Object) -> bool:
    """Return whether a job has not started, or has stopped and will start again."""
    status = mapping(job.get("status"))
    return not status.get("completionTimestamp") and status.get("phase") in (Phase.PENDING, None)


def cells(found: Waiting, *, wide: bool = False, namespace: bool = False) -> tuple[str, ...]:
    """Return the texts of a row, in the order of the header."""
    first = (
        found.name,
        found.reason,
        "high" if found.high else "normal",
        str(found.pods),
        str(found.gpus),
    )
    last: Sequence[str] = (span(found.seconds), starts_in(found))
    if wide:
        last = (local(found.since), starts_in(found), found.message)
    return (*((found.namespace,) if namespace else ()), *first, *last)


def header(*, wide: bool = False, namespace: bool = False) -> tuple[str, ...]:
    """Return the names of the columns."""
    return (*(("NAMESPACE",) if namespace else ()), *(HEADER_WIDE if wide else HEADER))


def starts_in(found: Waiting) -> str:
    """Return the expected start, or the place in a queue; empty if unknown."""
    if found.queue:
        place = found.place
        return f"{place.place} of {place.of} in queue {found.queue}" if place else ""
    if found.next_look:
        return "at the next look"
    if found.starts is None:
        return ""
    name = found.starts.key.removeprefix(f"{found.namespace}/")
    return f"{found.starts.when()}, after {name}"


def as_json(found: Waiting) -> dict[str, Any]:
    """Return the data for programs; times in seconds."""
    end = found.starts
    starts = (
        {"seconds": round(end.seconds), "after": end.key, "byDeadline": end.by_deadline}
        if end
        else None
    )
    return {
        "namespace": found.namespace,
        "name": found.name,
        "reason": found.reason,
        "message": found.message,
        "priority": "high" if found.high else "normal",
        "pods": found.pods,
        "gpus": found.gpus,
        "since": found.since.isoformat() if found.since else None,
        "waiting": round(found.seconds),
        "queue": found.queue or None,
        "place": {"place": found.place.place, "of": found.place.of} if found.place else None,
        "starts": {"seconds": 0, "after": None, "byDeadline": False} if found.next_look else starts,
    }


def _read(
    job: Object, now: datetime, starts: Mapping[str, End | None], places: Mapping[str, Place]
) -> Waiting | None:
    if not is_waiting(job):
        return None
    shown = row(job, now)
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    condition: Object = next(
        (
            each
            for each in map(mapping, items(status.get("conditions")))
            if each.get("type") == Phase.PENDING
        ),
        {},
    )
    since = parse_time(condition.get("lastTransitionTime")) or shown.created
    uid = str(metadata.get("uid") or "")
    queued = is_queued(job)
    return Waiting(
        uid=uid,
        namespace=shown.namespace,
        name=shown.name,
        reason=shown.reason or "the operator",
        message=shown.missing or str(condition.get("message") or ""),
        since=since,
        seconds=max(0.0, (now - since).total_seconds()) if since else 0.0,
        high=mapping(job.get("spec")).get("priority") == "high",
        pods=shown.ready[1],
        gpus=gpus_asked(job),
        queue=(queue_of(job) or "") if queued else "",
        place=places.get(uid) if queued else None,
        starts=None if queued else starts.get(uid),
        next_look=not queued and uid in starts and starts[uid] is None,
    )
