"""Timeline entries for Events on a job and its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import mapping
from di_api.timestamps import last_seen
from di_history.changes.jobs import version_of
from di_history.changes.times import of_datetime
from di_history.records import Entry, EntryKind, Millis

Object = Mapping[str, Any]
_LONGEST: Final = {"type": 16, "reason": 128, "message": 1024, "object": 320}
"""Maximum lengths in characters; the API server limits only the Events of events.k8s.io."""
_LONGEST_KEY: Final = 255


def subject(event: Object) -> tuple[str, str]:
    """Return the namespace of an Event, and the UID of its subject."""
    namespace = str(mapping(event.get("metadata")).get("namespace") or "")
    return namespace, str(mapping(event.get("involvedObject")).get("uid") or "")


def event_entry(event: Object, job: str, seen: Millis) -> Entry:
    """Return an entry of the job's timeline; a repeated Event replaces its earlier entry."""
    about = mapping(event.get("involvedObject"))
    at = last_seen(event)
    count = mapping(event.get("series")).get("count") or event.get("count") or 1
    return Entry(
        job=job,
        key=f"event/{mapping(event.get('metadata')).get('uid')}"[:_LONGEST_KEY],
        kind=EntryKind.EVENT,
        at=of_datetime(at) if at is not None else seen,
        version=version_of(event),
        data={
            **{
                name: text[: _LONGEST[name]]
                for name, text in (
                    ("type", str(event.get("type") or "")),
                    ("reason", str(event.get("reason") or "")),
                    ("message", str(event.get("message") or "")),
                    ("object", f"{about.get('kind') or ''}/{about.get('name') or ''}"),
                )
            },
            "count": count if isinstance(count, int) else 1,
        },
    )


def left_out_entry(event: Object, job: str, seen: Millis) -> Entry:
    """Return an entry that further Events about this one's subject are left out."""
    _, uid = subject(event)
    about = mapping(event.get("involvedObject"))
    return Entry(
        job=job,
        key=f"left-out/{uid}"[:_LONGEST_KEY],
        kind=EntryKind.EVENT,
        at=seen,
        version=seen,
        data={
            "type": "Warning",
            "reason": "EventsLeftOut",
            "message": "too many Events about this object: some are not kept",
            "object": f"{about.get('kind') or ''}/{about.get('name') or ''}"[: _LONGEST["object"]],
            "count": 1,
        },
    )
