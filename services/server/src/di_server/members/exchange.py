"""What di-servers tell each other: whatever one has heard since the other last asked.

Each asks all others, as soon as a pod has told it something new and at least once a second, in one
request that brings its own news as well. So a server that nobody knows yet learns all there is from
those that it knows, and what a request lost the next one brings: nobody has to be told twice, and
nothing is repaired but by going on.
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
"""Bytes."""
MAX_TOLD: Final = MAX_BODY // 2
"""Bytes of entries in a request or an answer, before JSON escapes what they say."""

Told = list[tuple[Entry, float]]
"""Entries, each with its age in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """One server's half of an exchange."""

    server: str
    """Who tells: another one with every start of its process."""
    entries: Told
    change: int = 0
    """Of its board: what it has told up to it."""
    more: bool = False
    """Whether there is more to tell at once."""
    known_server: str = ""
    """Whose news were told to it before, and up to which change."""
    known_change: int = 0

    def dump(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "server": self.server,
            "change": self.change,
            "more": self.more,
            "known": {"server": self.known_server, "change": self.known_change},
            "entries": [_dump(entry, age) for entry, age in self.entries],
        }


@dataclass(slots=True)
class Link:
    """How far two servers are, as the one that asks knows it."""

    server: str = ""
    """The other one, by its last answer."""
    heard: int = 0
    """The change up to which it has told."""
    told: int = 0
    """Our own change up to which it was told."""
    sending: int = field(default=0, repr=False)
    """The same, once it has answered."""

    def answered(self, news: News) -> None:
        """Take in its answer."""
        if news.server != self.server:
            # It has begun anew, or nobody knew it: what was told to another one does not count.
            self.server, self.told = news.server, 0
        else:
            self.told = self.sending
        self.heard = news.change


def read_news(body: Any) -> News:
    """Read one half of an exchange; keys that are not known are ignored.

    Raises:
        Malformed: it is none; the other server may be of another version.
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
        # A text, so that it stays what it is to the byte.
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
