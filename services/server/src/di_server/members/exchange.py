"""The exchange of entries between replicas of di-server.

Each replica calls all others as soon as a pod has sent something new, and at least once a second;
one request carries the news in both directions. So a new server learns everything from those that
it knows, and the next request delivers what an earlier one lost. No other repair is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from di_server.members.entry import MAX_SAYS, Entry
from di_server.problems import Malformed

PATH: Final = "/internal/members"
MAX_BODY: Final = 256 * 1024
"""Maximum bytes of a request."""
MAX_TOLD: Final = MAX_BODY // 2
"""Maximum bytes of entries in a request or response, before JSON escapes."""

Told = list[tuple[Entry, float]]
"""Entries, each with its age in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One server's half of an exchange."""

    server: str
    """The sending server; the name changes at every start of its process."""
    entries: Told
    change: int = 0
    """Number of the last change of its board that it has sent."""
    more: bool = False
    """Whether it has more to send at once."""
    known_server: str = ""
    """The server whose news it received before, and up to which change."""
    known_change: int = 0

    def dump(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "server": self.server,
            "change": self.change,
            "more": self.more,
            "known": {"server": self.known_server, "change": self.known_change},
            "entries": [_dump(entry, age) for entry, age in self.entries],
        }


@dataclass(slots=True)
class Link:
    """The state of an exchange with another server, kept by the caller."""

    server: str = ""
    """The other server, by its last response."""
    heard: int = 0
    """Number of the last change received from it."""
    told: int = 0
    """Number of our last change that it received."""
    sending: int = field(default=0, repr=False)
    """Number of our last change that it will have received when it responds."""

    def answered(self, news: News) -> None:
        """Process its response."""
        if news.server != self.server:
            # It was restarted, or was unknown: changes sent to another process do not count.
            self.server, self.told = news.server, 0
        else:
            self.told = self.sending
        self.heard = news.change


def read_news(body: Any) -> News:
    """Parse one half of an exchange; unknown keys are ignored.

    Raises:
        Malformed: it is invalid; the other server can be of another version.
    """
    try:
        known = body["known"]
        return News(
            server=_text(body["server"]),
            change=_count(body["change"]),
            more=body["more"] is True,
            known_server=_text(known["server"]),
            known_change=_count(known["change"]),
            entries=list(map(_read, _rows(body["entries"]))),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"this is no exchange of members: {type(error).__name__}") from error


def _dump(entry: Entry, age: float) -> dict[str, Any]:
    return {
        "namespace": entry.namespace,
        "jobUid": entry.job_uid,
        "pod": entry.pod,
        "podUid": entry.pod_uid,
        "task": entry.task,
        "version": entry.version,
        "age": round(age, 3),
        # A string, so that the bytes stay identical.
        "says": entry.says.decode(),
    }


def _read(row: Mapping[str, Any]) -> tuple[Entry, float]:
    says = _text(row["says"]).encode()
    if len(says) > MAX_SAYS or not isinstance(orjson.loads(says), dict):
        raise ValueError("says what no pod may")
    entry = Entry(
        namespace=_text(row["namespace"]),
        job_uid=_text(row["jobUid"]),
        pod=_text(row["pod"]),
        pod_uid=_text(row["podUid"]),
        task=_text(row["task"]),
        says=says,
        version=_count(row["version"]),
    )
    age = row["age"]
    if isinstance(age, bool) or not isinstance(age, int | float) or age < 0:
        raise ValueError("no age")
    return entry, float(age)


def _rows(value: object) -> Iterable[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("no count")
    return value
