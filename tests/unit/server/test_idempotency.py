"""One Idempotency-Key has one effect and one answer."""

from __future__ import annotations

import json

import pytest
from werkzeug.test import TestResponse

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


def _send(harness: Harness, key: str, body: str, method: str = "POST") -> TestResponse:
    return harness.client.open(PATH, method=method, data=body, headers={"Idempotency-Key": key})


def test_ten_times_the_same_request_is_applied_once(harness: Harness) -> None:
    answers = [_send(harness, "k1", '{"replicas": 1}') for _ in range(10)]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.data for answer in answers} == {answers[0].data}
    assert harness.replicas() == 3


def test_the_answer_stays_the_first_one_when_the_count_has_moved_on(harness: Harness) -> None:
    first = _send(harness, "k1", '{"replicas": 1}')
    _send(harness, "k2", '{"replicas": 1}')
    assert _send(harness, "k1", '{"replicas": 1}').json == first.json
    assert harness.replicas() == 4


def test_a_retry_gets_its_answer_after_the_job_has_finished(harness: Harness) -> None:
    first = _send(harness, "k1", '{"replicas": 1}')
    harness.job()["status"]["phase"] = "Succeeded"
    assert _send(harness, "k1", '{"replicas": 1}').json == first.json
    assert _send(harness, "k2", '{"replicas": 1}').status_code == 409


def test_spaces_and_order_of_keys_make_no_other_request(harness: Harness) -> None:
    _send(harness, "k1", '{"replicas": 1, "task": "collector"}')
    again = _send(harness, "k1", '{"task":"collector","replicas":1}')
    assert (again.status_code, harness.replicas()) == (200, 3)


@pytest.mark.parametrize(
    ("method", "body"), [("POST", '{"replicas": 2}'), ("DELETE", '{"replicas": 1}')]
)
def test_another_request_under_the_key_is_refused(harness: Harness, method: str, body: str) -> None:
    _send(harness, "k1", '{"replicas": 1}')
    assert _send(harness, "k1", body, method).status_code == 409
    assert harness.replicas() == 3


def test_a_refused_request_leaves_its_key_unused(harness: Harness) -> None:
    assert _send(harness, "k1", '{"replicas": 9}', "DELETE").status_code == 422
    assert ANNOTATION_IDEMPOTENCY not in harness.job()["metadata"].get("annotations", {})
    assert _send(harness, "k1", '{"replicas": 1}').status_code == 200


def test_the_key_is_kept_beside_the_annotations_of_others(harness: Harness) -> None:
    harness.job()["metadata"]["annotations"] = {"mine": "kept"}
    assert _send(harness, "k1", '{"replicas": 1}').status_code == 200
    assert harness.job()["metadata"]["annotations"].keys() == {"mine", ANNOTATION_IDEMPOTENCY}


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[1]", "[[1,2,3,4]]", '[["a","b","c","d"]]', '[["a"]]', "[" * 9000]
)
def test_an_annotation_edited_by_hand_counts_as_empty(harness: Harness, text: str) -> None:
    harness.job()["metadata"]["annotations"] = {ANNOTATION_IDEMPOTENCY: text}
    assert _send(harness, "k1", '{"replicas": 1}').status_code == 200
    assert _send(harness, "k1", '{"replicas": 1}').status_code == 200
    assert harness.replicas() == 3


@pytest.mark.parametrize("key", ["", " ", "a b", "k" * 256, "\x7f"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(Malformed, match="Idempotency-Key must be 1 to 255"):
        digest(key, "POST", {})


def _record(number: int, task: str) -> IdempotencyRecord:
    return IdempotencyRecord(
        IdempotencyKey(f"{number:022}", "r" * 22), ScalingResult(task, 2**31 - 1)
    )


@pytest.mark.parametrize(
    ("task", "kept"),
    [
        pytest.param("collector", range(MAX_RECORDS, MAX_RECORDS + 1), id="by number"),
        pytest.param("t" * 63, range(MAX_RECORDS // 2, MAX_RECORDS), id="by size"),
    ],
)
def test_the_newest_entries_are_kept_within_bounds(task: str, kept: range) -> None:
    records, count = IdempotencyRecords(), 3 * MAX_RECORDS
    for number in range(count):
        records = IdempotencyRecords.parse(records.adding(_record(number, task)).dump())
    assert len(records.dump()) <= MAX_BYTES
    assert len(json.loads(records.dump())) in kept
    newest = _record(count - 1, task)
    assert records.find(newest.key) == newest
    assert records.find(_record(0, task).key) is None
