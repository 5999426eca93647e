"""Answers already given, by Idempotency-Key: an annotation of the job.

It is written by the same patch as the change it answers for, so there is no moment at which one
exists without the other, whichever server is asked and whenever one is killed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_server.problems import Malformed

MAX_ENTRIES: Final = 128
MAX_BYTES: Final = 16 * 1024
"""The annotation travels with the job to every watcher, so it must stay small."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What a scaling request is told: the task and the value it was set to."""

    task: str
    replicas: int


@dataclass(frozen=True, slots=True)
class RetryKey:
    """An Idempotency-Key and the request it stands for, both as digests."""

    key: str
    request: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer under its key."""

    retry_key: RetryKey
    answer: Answer


@dataclass(frozen=True, slots=True)
class Ledger:
    """Entries, oldest first."""

    entries: tuple[Entry, ...] = ()

    @classmethod
    def parse(cls, text: object) -> Ledger:
        """Read the annotation; what is not ours (edited by hand) counts as empty."""
        try:
            rows = json.loads(text) if isinstance(text, str) and len(text) <= MAX_BYTES else []
            return cls(tuple(_entry(*row) for row in rows))
        except (TypeError, ValueError, RecursionError):
            return cls()

    def find(self, key: RetryKey) -> Entry | None:
        """The entry under the same key, for whatever request."""
        return next((entry for entry in self.entries if entry.retry_key.key == key.key), None)

    def adding(self, entry: Entry) -> Ledger:
        """With one more entry, the oldest gone when there are too many."""
        return Ledger((*self.entries, entry)[-MAX_ENTRIES:])

    def dump(self) -> str:
        """The annotation, at most MAX_BYTES; the newest entry is always in it."""
        rows = [
            json.dumps(
                [e.retry_key.key, e.retry_key.request, e.answer.task, e.answer.replicas],
                separators=(",", ":"),
            )
            for e in self.entries
        ]
        while sum(len(row) + 1 for row in rows) + 1 > MAX_BYTES:
            del rows[0]
        return f"[{','.join(rows)}]"


def retry_key(header: str | None, method: str, body: Mapping[str, Any]) -> RetryKey | None:
    """Digest a request's Idempotency-Key; None without the header.

    The body counts by its meaning: spaces and the order of keys do not make another request.

    Raises:
        Malformed: the key is not 1 to 255 printable ASCII characters.
    """
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise Malformed("Idempotency-Key must be 1 to 255 printable ASCII characters, no spaces")
    canonical = json.dumps([method, body], sort_keys=True, separators=(",", ":"))
    return RetryKey(key=_digest(header), request=_digest(canonical))


def _entry(key: str, request: str, task: str, replicas: int) -> Entry:
    if not all(isinstance(text, str) for text in (key, request, task)):
        raise TypeError("not an entry")
    if not isinstance(replicas, int):
        raise TypeError("not an entry")
    return Entry(RetryKey(key, request), Answer(task, replicas))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
