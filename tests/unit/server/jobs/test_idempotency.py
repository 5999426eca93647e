"""One Idempotency-Key has one effect and one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.names import ANNOTATION_IDEMPOTENCY
from di_server.jobs.idempotency import (
    MAX_BYTES,
    MAX_RECORDS,
    IdempotencyKey,
    IdempotencyRecord,
    IdempotencyRecords,
    ScalingResult,
)
from di_server.jobs.idempotency import idempotency_key as digest
from di_server.problems import Malformed
from tests.unit.server.fakes import Harness

PATH = "/v2alpha1/rl.cartpole/replicas"


ONE = b'{"replicas": 1}'


def _send(harness: Harness, key: str, body: bytes = ONE, method: str = "POST") -> tuple[int, Any]:
    return harness.ask(PATH, body, method=method, headers={"Idempotency-Key": key})


def test_a_repeated_request_is_applied_once_and_gets_its_first_answer(harness: Harness) -> None:
    first = _send(harness, "k1")
    assert first == (200, {"task": "collector", "replicas": 3})
    assert [_send(harness, "k1") for _ in range(9)] == [first] * 9
    _send(harness, "k2")
    assert _send(harness, "k1") == first
    assert harness.replicas() == 4
    harness.job()["status"]["phase"] = "Succeeded"
    assert _send(harness, "k1") == first
    assert _send(harness, "k3")[0] == 409


@pytest.mark.proves("rest.md#retrying-without-doubling", "rest.md#answers/409")
@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("POST", b'{"task":"collector","replicas":1}', 200),
        ("POST", b'{"replicas": 2, "task": "collector"}', 409),
        ("DELETE", b'{"replicas": 1, "task": "collector"}', 409),
    ],
)
def test_another_request_under_the_key_is_refused(
    harness: Harness, method: str, body: bytes, status: int
) -> None:
    _send(harness, "k1", b'{"replicas": 1, "task": "collector"}')
    assert _send(harness, "k1", body, method)[0] == status
    assert harness.replicas() == 3


def test_a_refused_request_leaves_its_key_unused(harness: Harness) -> None:
    assert _send(harness, "k1", b'{"replicas": 9}', "DELETE")[0] == 422
    assert ANNOTATION_IDEMPOTENCY not in harness.job()["metadata"].get("annotations", {})
    harness.job()["metadata"]["annotations"] = {"mine": "kept"}
    assert _send(harness, "k1")[0] == 200
    assert harness.job()["metadata"]["annotations"].keys() == {"mine", ANNOTATION_IDEMPOTENCY}


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[1]", "[[1,2,3,4]]", '[["a","b","c","d"]]', '[["a"]]', "[" * 9000]
)
def test_an_unreadable_annotation_counts_as_empty(harness: Harness, text: str) -> None:
    harness.job()["metadata"]["annotations"] = {ANNOTATION_IDEMPOTENCY: text}
    for _ in range(2):
        assert _send(harness, "k1")[0] == 200
    assert harness.replicas() == 3


@pytest.mark.parametrize("key", ["", " ", "a b", "k" * 256, "\x7f"])
def test_a_bad_key_is_refused(key: str) -> None:
    with pytest.raises(Malformed, match="Idempotency-Key must be 1 to 255"):
        digest(key, "POST", {}, caller="")


def _record(number: int, task: str) -> IdempotencyRecord:
    return IdempotencyRecord(
        IdempotencyKey(f"{number:022}", "r" * 22), ScalingResult(task, 2**31 - 1)
    )


@pytest.mark.proves("rest.md#retrying-without-doubling")
@pytest.mark.parametrize(
    ("task", "kept"),
    [
        pytest.param("collector", range(MAX_RECORDS, MAX_RECORDS + 1), id="by number"),
        pytest.param("t" * 63, range(MAX_RECORDS // 2, MAX_RECORDS), id="by size"),
    ],
)
def test_the_newest_records_are_kept_within_bounds(task: str, kept: range) -> None:
    records, count = IdempotencyRecords(), 3 * MAX_RECORDS
    for number in range(count):
        records = IdempotencyRecords.parse(records.adding(_record(number, task)).dump())
    assert len(records.dump()) <= MAX_BYTES
    assert len(json.loads(records.dump())) in kept
    newest = _record(count - 1, task)
    assert records.find(newest.key) == newest
    assert records.find(_record(0, task).key) is None
