"""Changes of a job, the targets to notify of them, and the text. Pure functions."""

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
"""Age in seconds above which nothing is notified, so that a new leader or new targets cause no
flood.
"""
_LONGEST: Final = 1000
_CONDITIONS: Final = {
    "Succeeded": Happening.SUCCEEDED,
    "Failed": Happening.FAILED,
    "Hung": Happening.HUNG,
    "Idle": Happening.IDLE,
    "Pending": Happening.WAITING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One thing that happened to a job at one time."""

    happening: Happening
    at: str
    """Time as in the status: each pair of happening and time is notified once."""
    reason: str
    message: str


def news_of(job: Object, now: datetime, *, waiting: float) -> Iterator[News]:
    """Return what has happened and was not notified yet.

    `waiting` is the time in seconds after which a Pending job without a forecast causes a
    notification; 0: never.
    """
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
    """Return the targets to notify: those in the job's annotation, or the default ones."""
    chosen = named_targets(job)
    return [
        each
        for each in targets
        if happening in each.on and (each.default if chosen is None else each.name in chosen)
    ]


def body(target: Target, job: Object, news: News) -> dict[str, Any]:
    """Return the body to send."""
    metadata = job["metadata"]
    if target.format is Format.SLACK:
        where = f"{metadata['namespace']}/{metadata['name']}"
        text = f"{where}: {news.happening.value}. {news.message}".strip()
        # The characters that Slack treats as markup.
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
    """Return the time by which it should have started, by the first forecast since it began to
    wait.
    """
    return parse_time(mapping(status.get("expectedStart")).get("promised"))


def _is_suspended(job: Object) -> bool:
    return mapping(job.get("spec")).get("suspend") is True
