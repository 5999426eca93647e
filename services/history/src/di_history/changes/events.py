"""Events on a job and on its pods, as entries of its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.field_error import mapping
from di_api.timestamps import last_seen
from di_history.changes.jobs import version_of
from di_history.changes.times import of_datetime
from di_history.records import Entry, EntryKind, Millis

Object = Mapping[str, Any]


def subject(event: Object) -> str:
    """UID of what an Event is about."""
    return str(mapping(event.get("involvedObject")).get("uid") or "")


def event_entry(event: Object, job: str, seen: Millis) -> Entry:
    """An entry of the job's timeline; one that is counted again replaces what it was before."""
    about = mapping(event.get("involvedObject"))
    at = last_seen(event)
    count = mapping(event.get("series")).get("count") or event.get("count") or 1
    return Entry(
        job=job,
        key=f"event/{mapping(event.get('metadata')).get('uid')}",
        kind=EntryKind.EVENT,
        at=of_datetime(at) if at is not None else seen,
        version=version_of(event),
        data={
            "type": str(event.get("type") or ""),
            "reason": str(event.get("reason") or ""),
            "message": str(event.get("message") or ""),
            "object": f"{about.get('kind') or ''}/{about.get('name') or ''}",
            "count": count,
        },
    )
