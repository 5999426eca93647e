"""What has happened to a job, whom it is told, and in which words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_operator.notification_targets import Format, Happening, Target, named_targets

Object = Mapping[str, Any]

OLDEST: Final = 3600.0
"""Seconds after which something is no news: who comes to lead, or is given targets for the first
time, does not tell of years."""
_LONGEST: Final = 1000
_CONDITIONS: Final = {
    "Succeeded": Happening.SUCCEEDED,
    "Failed": Happening.FAILED,
    "Hung": Happening.HUNG,
    "Pending": Happening.WAITING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that happened to a job, at a moment."""

    happening: Happening
    at: str
    """As the status has it: what is told once is this happening of this moment."""
    reason: str
    message: str


def news_of(job: Object, now: datetime, *, waiting: float) -> Iterator[News]:
    """What has happened and was not told yet. `waiting` are the seconds after which a Pending job
    is told of, of which nobody has foretold when it would start; 0: none is."""
    status = mapping(job.get("status"))
    told = mapping(status.get("notified"))
    for each in map(mapping, items(status.get("conditions"))):
        happening = _CONDITIONS.get(str(each.get("type")))
        at, since = each.get("lastTransitionTime"), parse_time(each.get("lastTransitionTime"))
        if happening is None or each.get("status") != "True" or since is None:
            continue
        message = str(each.get("message") or "")[:_LONGEST]
        if happening is Happening.WAITING:
            promised = _promised(status)
            since = promised or since + timedelta(seconds=waiting)
            if not waiting or now < since or _is_suspended(job):
                continue
            if promised is not None:
                message = f"it was expected to start by {promised.isoformat()}: {message}"
        passed = (now - since).total_seconds()
        if passed <= OLDEST and told.get(happening.value) != at:
            yield News(
                happening=happening,
                at=str(at),
                reason=str(each.get("reason") or ""),
                message=message,
            )


def addressees(job: Object, targets: Iterable[Target], happening: Happening) -> list[Target]:
    """Who is told: those that the job's annotation names, or the default ones."""
    chosen = named_targets(job)
    return [
        each
        for each in targets
        if happening in each.on and (each.default if chosen is None else each.name in chosen)
    ]


def body(target: Target, job: Object, news: News) -> dict[str, Any]:
    """What is sent."""
    metadata = job["metadata"]
    if target.format is Format.SLACK:
        where = f"{metadata['namespace']}/{metadata['name']}"
        text = f"{where}: {news.happening.value}. {news.message}".strip()
        # What Slack takes for markup.
        for sign, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(sign, escaped)
        return {"text": text}
    return {
        "event": news.happening.value,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "time": news.at,
        "reason": news.reason,
        "message": news.message,
    }


def _promised(status: Object) -> datetime | None:
    """Until when it was to have started, by the first forecast since it has been waiting."""
    return parse_time(mapping(status.get("expectedStart")).get("promised"))


def _is_suspended(job: Object) -> bool:
    return mapping(job.get("spec")).get("suspend") is True
