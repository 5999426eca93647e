"""Whatever arrives, the answer is a bounded 400 or a decision: never a 500, never an exception."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_webhook.admission import mutate, validate
from di_webhook.conversion_review import answer as convert
from di_webhook.review import Outcome
from tests.unit.webhook.reviews import UID, job, review

DEEP = 100_000

UNREADABLE = {
    "empty": b"",
    "not JSON": b"hello",
    "not UTF-8": b"\xff\xfe{}",
    "null": b"null",
    "a list": b"[]",
    "a number of thousands of digits": b"1" * 10_000,
    "arrays nested very deep": b"[" * DEEP,
    "objects nested very deep": b'{"a":' * DEEP,
    "a string that never ends": b'"' + b'\\"' * DEEP,
    "NaN": b'{"request": {"uid": "1", "object": NaN}}',
    "a number without end": b'{"request": {"uid": "1", "object": 1e999}}',
    "minus infinity": b'{"request": {"uid": "1", "object": -Infinity}}',
    "duplicate keys": b'{"request": {"uid": "1", "uid": "2"}}',
    "two documents": review(job()) * 2,
    "a gzip bomb": gzip.compress(b"0" * 3_000_000),
    "no request": json.dumps({"apiVersion": "admission.k8s.io/v1"}).encode(),
    "request null": b'{"request": null}',
    "no uid": review(job(), uid=None),
    "an empty uid": review(job(), uid=""),
    "a uid that is a number": review(job(), uid=7),
    "a huge uid": review(job(), uid="u" * 50_000),
}

READABLE_UID = {
    "v1beta1": review(job()).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
    "another kind of envelope": review(job()).replace(b'"AdmissionReview"', b'"Review"'),
    "no kind": review(job(), kind=None),
    "a kind that is a string": review(job(), kind="DIJob"),
    "an operation that is a list": review(job(), operation=["CREATE"]),
    "a name that is an object": review(job(), name={}),
}


@pytest.mark.parametrize("decide", [mutate, validate, convert])
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_review_without_a_readable_uid_is_answered_with_400(decide: Any, body: bytes) -> None:
    answer = decide(body)
    assert answer.status == 400
    assert answer.outcome is Outcome.MALFORMED
    assert answer.body.keys() == {"message"}
    assert len(answer.body["message"]) < 200


@pytest.mark.parametrize("decide", [mutate, validate])
@pytest.mark.parametrize("body", READABLE_UID.values(), ids=READABLE_UID.keys())
def test_a_malformed_review_with_a_uid_is_denied_with_400(decide: Any, body: bytes) -> None:
    answer = decide(body)
    assert answer.status == 400
    assert answer.body["response"]["uid"] == UID
    assert answer.body["response"]["allowed"] is False
    assert answer.body["response"]["status"]["code"] == 400


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(body: bytes) -> None:
    for decide in (mutate, validate):
        assert decide(body).status in (200, 400)


@given(JSON, JSON, st.sampled_from(["CREATE", "UPDATE"]))
def test_any_object_gets_an_answer(obj: Any, old: Any, operation: str) -> None:
    body = review(obj, old=old, operation=operation)
    for decide in (mutate, validate):
        answer = decide(body)
        assert answer.status == 200
        json.dumps(answer.body)


@given(JSON)
def test_any_spec_gets_an_answer(spec: Any) -> None:
    weird = {**job(), "spec": spec}
    for body in (review(weird), review(weird, old=job(), operation="UPDATE")):
        for decide in (mutate, validate):
            assert decide(body).status == 200


@given(JSON, st.sampled_from(["uid", "kind", "operation", "name", "namespace", "subResource"]))
def test_any_request_field_gets_an_answer(value: Any, field: str) -> None:
    answer = validate(review(job(), **{field: value}))
    assert answer.status in (200, 400)
    json.dumps(answer.body)
