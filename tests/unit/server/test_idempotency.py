"""One Idempotency-Key has one effect and one answer."""

from __future__ import annotations

import json

import pytest
from werkzeug.test import TestResponse

from di_api.names import ANNOTATION_IDEMPOTENCY
from di_server.decisions.ledger import MAX_BYTES, MAX_ENTRIES, Answer, Entry, Ledger, RetryKey
from di_server.decisions.ledger import retry_key as digest
from di_server.problems import Malformed
from tests.unit.server.fakes import Stand

PATH = "/v2alpha1/rl.cartpole/replicas"


def _send(stand: Stand, key: str, body: str, method: str = "POST") -> TestResponse:
    return stand.client.open(PATH, method=method, data=body, headers={"Idempotency-Key": key})


def test_ten_times_the_same_request_is_applied_once(stand: Stand) -> None:
    answers = [_send(stand, "k1", '{"replicas": 1}') for _ in range(10)]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.data for answer in answers} == {answers[0].data}
    assert stand.replicas() == 3


def test_the_answer_stays_the_first_one_when_the_count_has_moved_on(stand: Stand) -> None:
    first = _send(stand, "k1", '{"replicas": 1}')
    _send(stand, "k2", '{"replicas": 1}')
    assert _send(stand, "k1", '{"replicas": 1}').json == first.json
    assert stand.replicas() == 4


def test_a_retry_gets_its_answer_after_the_job_has_finished(stand: Stand) -> None:
    first = _send(stand, "k1", '{"replicas": 1}')
    stand.job()["status"]["phase"] = "Succeeded"
    assert _send(stand, "k1", '{"replicas": 1}').json == first.json
    assert _send(stand, "k2", '{"replicas": 1}').status_code == 409


def test_spaces_and_order_of_keys_make_no_other_request(stand: Stand) -> None:
    _send(stand, "k1", '{"replicas": 1, "task": "collector"}')
    again = _send(stand, "k1", '{"task":"collector","replicas":1}')
    assert (again.status_code, stand.replicas()) == (200, 3)


@pytest.mark.parametrize(
    ("method", "body"), [("POST", '{"replicas": 2}'), ("DELETE", '{"replicas": 1}')]
)
def test_another_request_under_the_key_is_refused(stand: Stand, method: str, body: str) -> None:
    _send(stand, "k1", '{"replicas": 1}')
    assert _send(stand, "k1", body, method).status_code == 409
    assert stand.replicas() == 3


def test_a_refused_request_leaves_its_key_unused(stand: Stand) -> None:
    assert _send(stand, "k1", '{"replicas": 9}', "DELETE").status_code == 422
    assert ANNOTATION_IDEMPOTENCY not in stand.job()["metadata"].get("annotations", {})
    assert _send(stand, "k1", '{"replicas": 1}').status_code == 200


def test_the_key_is_kept_beside_the_annotations_of_others(stand: Stand) -> None:
    stand.job()["metadata"]["annotations"] = {"mine": "kept"}
    assert _send(stand, "k1", '{"replicas": 1}').status_code == 200
    assert stand.job()["metadata"]["annotations"].keys() == {"mine", ANNOTATION_IDEMPOTENCY}


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[1]", "[[1,2,3,4]]", '[["a","b","c","d"]]', '[["a"]]', "[" * 9000]
)
def test_an_annotation_edited_by_hand_counts_as_empty(stand: Stand, text: str) -> None:
    stand.job()["metadata"]["annotations"] = {ANNOTATION_IDEMPOTENCY: text}
    assert _send(stand, "k1", '{"replicas": 1}').status_code == 200
    assert _send(stand, "k1", '{"replicas": 1}').status_code == 200
    assert stand.replicas() == 3


@pytest.mark.parametrize("key", ["", " ", "a b", "k" * 256, "\x7f"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(Malformed, match="Idempotency-Key must be 1 to 255"):
        digest(key, "POST", {})


def _entry(number: int, task: str) -> Entry:
    return Entry(RetryKey(f"{number:022}", "r" * 22), Answer(task, 2**31 - 1))


@pytest.mark.parametrize(
    ("task", "kept"),
    [
        pytest.param("collector", range(MAX_ENTRIES, MAX_ENTRIES + 1), id="by number"),
        pytest.param("t" * 63, range(MAX_ENTRIES // 2, MAX_ENTRIES), id="by size"),
    ],
)
def test_the_newest_entries_are_kept_within_bounds(task: str, kept: range) -> None:
    ledger, count = Ledger(), 3 * MAX_ENTRIES
    for number in range(count):
        ledger = Ledger.parse(ledger.adding(_entry(number, task)).dump())
    assert len(ledger.dump()) <= MAX_BYTES
    assert len(json.loads(ledger.dump())) in kept
    newest = _entry(count - 1, task)
    assert ledger.find(newest.retry_key) == newest
    assert ledger.find(_entry(0, task).retry_key) is None
