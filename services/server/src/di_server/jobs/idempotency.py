"""Results of executed requests by Idempotency-Key: an annotation of the job.

One patch writes both the annotation and the change, so neither ever exists without the other,
whichever server handles the request and whenever one is killed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.names import ANNOTATION_IDEMPOTENCY
from di_server.problems import Malformed, NotNow

MAX_RECORDS: Final = 128
MAX_BYTES: Final = 16 * 1024
"""Maximum bytes of the annotation, which every watcher of the job gets."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """Result of a scale request: the task and its new number of replicas."""

    task: str
    replicas: int
    warning: str | None = None
    """What the change costs, if it costs more than the pods that are added or removed."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """An Idempotency-Key and its request, both as digests."""

    digest: str
    request: str
    before: str = field(default="", compare=False)
    """Digest of the key in an earlier version, which ignored the caller; empty: the same. It finds
    a request whose response was lost during an upgrade.
    """


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A result with its key."""

    key: IdempotencyKey
    result: ScalingResult


@dataclass(frozen=True, slots=True)
class IdempotencyRecords:
    """Records, oldest first."""

    records: tuple[IdempotencyRecord, ...] = ()

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> IdempotencyRecords:
        """Return the records of a job."""
        return cls.parse((job["metadata"].get("annotations") or {}).get(ANNOTATION_IDEMPOTENCY))

    @classmethod
    def parse(cls, text: object) -> IdempotencyRecords:
        """Parse the annotation; text that is not ours (edited by hand) counts as empty."""
        try:
            rows = json.loads(text) if isinstance(text, str) and len(text) <= MAX_BYTES else []
            return cls(tuple(_record(*row) for row in rows))
        except (TypeError, ValueError, RecursionError):
            return cls()

    def find(self, key: IdempotencyKey) -> IdempotencyRecord | None:
        """Return the record with the same key, for any request."""
        digests = {key.digest, key.before or key.digest}
        return next((record for record in self.records if record.key.digest in digests), None)

    def result_of(self, key: IdempotencyKey | None) -> ScalingResult | None:
        """Return the result of the request with this key; None if it was not executed.

        Raises:
            NotNow: the key was used for another request.
        """
        known = self.find(key) if key else None
        if known is None:
            return None
        if key is None or known.key.request != key.request:
            raise NotNow("this Idempotency-Key was used for another request")
        return known.result

    def adding(self, record: IdempotencyRecord) -> IdempotencyRecords:
        """Return the records with one more, without the oldest if there are too many."""
        return IdempotencyRecords((*self.records, record)[-MAX_RECORDS:])

    def dump(self) -> str:
        """Return the annotation, at most MAX_BYTES; it always contains the newest record."""
        rows = [
            json.dumps(
                [e.key.digest, e.key.request, e.result.task, e.result.replicas],
                separators=(",", ":"),
            )
            for e in self.records
        ]
        while sum(len(row) + 1 for row in rows) + 1 > MAX_BYTES:
            del rows[0]
        return f"[{','.join(rows)}]"


def recording(
    records: IdempotencyRecords, key: IdempotencyKey | None, result: ScalingResult
) -> dict[str, str]:
    """Return the annotation with the job's records and a new result; empty without a key."""
    if key is None:
        return {}
    return {ANNOTATION_IDEMPOTENCY: records.adding(IdempotencyRecord(key, result)).dump()}


def idempotency_key(
    header: str | None, method: str, body: Mapping[str, Any], *, caller: str
) -> IdempotencyKey | None:
    """Return the digest of a request's Idempotency-Key; None without the header.

    The body counts by its parsed value, without spaces and the order of keys.

    Args:
        caller: UID of the sender: equal keys of two callers are different. Empty: unknown.

    Raises:
        Malformed: the key is not 1 to 255 printable ASCII characters.
    """
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise Malformed("Idempotency-Key must be 1 to 255 printable ASCII characters, no spaces")
    canonical = json.dumps([method, body], sort_keys=True, separators=(",", ":"))
    # A key contains no space.
    digest = _digest(f"{caller} {header}" if caller else header)
    return IdempotencyKey(
        digest=digest, request=_digest(canonical), before=_digest(header) if caller else ""
    )


def _record(digest: str, request: str, task: str, replicas: int) -> IdempotencyRecord:
    if not all(isinstance(text, str) for text in (digest, request, task)):
        raise TypeError("not a record")
    if not isinstance(replicas, int):
        raise TypeError("not a record")
    return IdempotencyRecord(IdempotencyKey(digest, request), ScalingResult(task, replicas))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
