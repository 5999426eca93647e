"""Whose review it is, by its first bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_webhook.review import tenant_of
from tests.unit.webhook.reviews import job, review
from tools.hostile.reviews import review as written


def asked(namespace: str, user: str, name: str = "a") -> bytes:
    """A review in the order of the API server's fields."""
    found = json.loads(written(job()))
    found["request"] |= {"namespace": namespace, "name": name, "userInfo": {"username": user}}
    return json.dumps(found, separators=(",", ":")).encode()


def test_a_review_is_of_its_namespace_and_user() -> None:
    found = {tenant_of("/validate", asked(*each)) for each in (("a", "x"), ("a", "y"), ("b", "x"))}
    assert len(found) == 3
    assert tenant_of("/mutate", asked("a", "x")) == tenant_of("/validate", asked("a", "x", "b"))
    assert tenant_of("/validate", review(job())) == tenant_of("/mutate", review(job()))


@given(st.text(), st.text())
def test_a_name_cannot_pass_for_another_namespace_or_user(name: str, user: str) -> None:
    forged = f'{name}"namespace":"other","userInfo":{{"username":"root"}}'
    assert tenant_of("/", asked("mine", user, forged)) == tenant_of("/", asked("mine", user))


@pytest.mark.parametrize("body", [b"", b"\xff" * 9000, b'{"request":{}}', b'"namespace":"' * 900])
def test_a_body_that_names_no_tenant_is_of_its_path(body: bytes) -> None:
    assert tenant_of("/convert", body) == "/convert"
