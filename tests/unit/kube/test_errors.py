"""Answers of the API server become the exception their reader must react to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_kube import errors
from di_kube.errors import ApiError, Forbidden, from_status


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", ApiError),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        *((410, reason, errors.Gone) for reason in ("Expired", "Gone")),
        *((code, "Invalid", errors.Invalid) for code in (400, 413, 415, 422)),
        (429, "TooManyRequests", errors.Throttled),
        *((code, "Timeout", errors.Unavailable) for code in (0, 408, 500, 502, 503, 504)),
    ],
)
def test_each_status_has_its_type(code: int, reason: str, expected: type[ApiError]) -> None:
    error = from_status(code, {"reason": reason}, {}, kind="Pod", namespace="ns", name="a")
    assert type(error) is expected
    assert (error.code, error.reason) == (code, reason)


def test_a_version_newer_than_the_servers_counts_as_gone() -> None:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    body = {"reason": "Timeout", "details": {"causes": causes}}
    assert isinstance(from_status(504, body, {}, kind="Pod"), errors.Gone)


def test_causes_have_fields_and_bounded_messages() -> None:
    causes: list[Any] = [{"field": "spec.a", "message": "m" * 5000}, "none", {"field": 3}] * 40
    found = from_status(422, {"details": {"causes": causes}}, {}, kind="Pod").causes
    assert found[:2] == (("spec.a", "m" * 2048), ("", ""))
    assert len(found) == 50


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0', True),
        ('pods "a" is forbidden: User "x" cannot create resource "pods"', False),
    ],
)
def test_a_quota_is_told_from_other_refusals(message: str, expected: bool) -> None:
    error = from_status(403, {"message": message}, {}, kind="Pod")
    assert isinstance(error, Forbidden)
    assert error.is_quota is expected


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"Retry-After": "3"}, {}, 3.0),
        ({"Retry-After": "3"}, {"retryAfterSeconds": 9}, 3.0),
        ({}, {"retryAfterSeconds": 9}, 9.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({"Retry-After": "-1"}, {}, None),
        ({"Retry-After": "nan"}, {}, None),
        ({"Retry-After": "inf"}, {}, None),
        ({}, {"retryAfterSeconds": "soon"}, None),
        ({}, None, None),
    ],
)
def test_the_delay_is_that_of_the_header_or_the_details(
    headers: dict[str, str], details: Any, expected: float | None
) -> None:
    assert from_status(429, {"details": details}, headers, kind="Pod").retry_after == expected


def test_the_message_names_object_code_and_reason() -> None:
    body = {"reason": "NotFound", "message": 'pods "a" not found'}
    error = from_status(404, body, {}, kind="Pod", namespace="ns", name="a")
    assert str(error) == 'Pod ns/a: 404 NotFound: pods "a" not found'
    assert str(from_status(0, None, {}, kind="Pod")).startswith("Pod *: no answer")


def test_a_long_message_is_cut() -> None:
    assert len(from_status(500, "x" * 10_000, {}, kind="Pod").message) == 2048


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["reason", "message", "details", "causes", "retryAfterSeconds"]), inner
        )
    ),
)


@given(code=st.integers(0, 999), body=json_values)
def test_any_body_makes_an_error(code: int, body: object) -> None:
    assert from_status(code, body, {}, kind="Pod").code == code


def test_a_write_that_a_webhook_could_not_admit_had_no_effect() -> None:
    words = 'Internal error occurred: failed calling webhook "x": connect: connection refused'
    body = {"reason": "InternalError", "message": words}
    assert isinstance(from_status(500, body, {}, kind="Pod"), errors.Unwritten)
    other = from_status(500, {**body, "message": "etcd: request timed out"}, {}, kind="Pod")
    assert not isinstance(other, errors.Unwritten)
