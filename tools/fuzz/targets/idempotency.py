"""The annotation of results already told, which anybody who may edit a job may edit."""

from __future__ import annotations

from typing import Final

from di_server.jobs.idempotency import (
    MAX_BYTES,
    MAX_RECORDS,
    IdempotencyKey,
    IdempotencyRecord,
    IdempotencyRecords,
    ScalingResult,
    idempotency_key,
)
from di_server.problems import Malformed

_KEY_BYTES: Final = 40


def annotation(data: bytes) -> None:
    """Whatever is there, a new result is found again, beside the newest of the old ones."""
    text = data.decode("utf-8", "replace")
    found = IdempotencyRecords.parse(text)
    assert IdempotencyRecords.parse(found.dump()) == found
    key = _key(data[-_KEY_BYTES:].decode("latin-1"))
    record = IdempotencyRecord(key=key, result=ScalingResult("collector", 3))
    after = found.adding(record).dump()
    assert len(after.encode()) <= MAX_BYTES
    kept = IdempotencyRecords.parse(after)
    assert kept.records[-1] == record
    assert len(kept.records) <= MAX_RECORDS
    assert kept.records[:-1] == found.records[len(found.records) + 1 - len(kept.records) :]
    assert after.isascii(), "JSON that a patch can carry"


def _key(header: str) -> IdempotencyKey:
    try:
        found = idempotency_key(header, "POST", {"replicas": 1}, caller="uid")
    except Malformed:
        found = idempotency_key("a-key", "POST", {"replicas": 1}, caller="uid")
    assert found is not None
    return found
