"""Results of requests that took effect, by Idempotency-Key: an annotation of the job.

It is written by the same patch as the change it tells of, so there is no moment at which one
exists without the other, whichever server is asked and whenever one is killed.
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
"""The annotation travels with the job to every watcher, so it must stay small."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ScalingResult:
    """What a scaling request is told: the task and the value it was set to."""

    task: str
    replicas: int


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """An Idempotency-Key and the request it stands for, both as digests."""

    digest: str
    request: str
    before: str = field(default="", compare=False)
    """The digest that an earlier version made of the key, for whichever caller; empty: the same.
    A request whose answer was lost in an upgrade is found by it."""


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """One result under its key."""

    key: IdempotencyKey
    result: ScalingResult


@dataclass(frozen=True, slots=True)
class IdempotencyRecords:
    """Records, oldest first."""

    records: tuple[IdempotencyRecord, ...] = ()

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> IdempotencyRecords:
        """Those of a job."""
        return cls.parse((job["metadata"].get("annotations") or {}).get(ANNOTATION_IDEMPOTENCY))

    @classmethod
    def parse(cls, text: object) -> IdempotencyRecords:
        """Read the annotation; what is not ours (edited by hand) counts as empty."""
        try:
            rows = json.loads(text) if isinstance(text, str) and len(text) <= MAX_BYTES else []
            return cls(tuple(_record(*row) for row in rows))
        except (TypeError, ValueError, RecursionError):
            return cls()

    def find(self, key: IdempotencyKey) -> IdempotencyRecord | None:
        """The record under the same key, for whatever request."""
        digests = {key.digest, key.before or key.digest}
        return next((record for record in self.records if record.key.digest in digests), None)

    def result_of(self, key: IdempotencyKey | None) -> ScalingResult | None:
        """The result of the request with this key; None if it has not taken effect.

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
        """With one more record, the oldest gone when there are too many."""
        return IdempotencyRecords((*self.records, record)[-MAX_RECORDS:])

    def dump(self) -> str:
        """The annotation, at most MAX_BYTES; the newest record is always in it."""
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
    """The annotation that has a result among the job's records; none without a key."""
    if key is None:
        return {}
    return {ANNOTATION_IDEMPOTENCY: records.adding(IdempotencyRecord(key, result)).dump()}


def idempotency_key(
    header: str | None, method: str, body: Mapping[str, Any], *, caller: str
) -> IdempotencyKey | None:
    """Digest a request's Idempotency-Key; None without the header.

    The body counts by its meaning: spaces and the order of keys do not make another request.

    Args:
        caller: UID of who sends it: the same key of two callers is two keys. Empty: unknown.

    Raises:
        Malformed: the key is not 1 to 255 printable ASCII characters.
    """
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise Malformed("Idempotency-Key must be 1 to 255 printable ASCII characters, no spaces")
    canonical = json.dumps([method, body], sort_keys=True, separators=(",", ":"))
    # A key has no space.
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
