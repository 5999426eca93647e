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


def converted(annotations: dict[str, str], spec: object = None) -> bytes:
    """A review in the order of the API server's fields; those of an object are sorted."""
    metadata = {"annotations": annotations, "labels": annotations, "name": "a", "namespace": "mine"}
    found = {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": "u", "objects": [{"metadata": metadata, "spec": spec}]},
    }
    return json.dumps(found, separators=(",", ":")).encode()


@pytest.mark.parametrize("text", ["victim", '"', "\\", "x" * 4100, '\\"' * 2000])
def test_no_key_of_an_annotation_passes_for_the_namespace(text: str) -> None:
    forged = converted({"namespace": "victim", "more": text})
    honest = converted({"more": text})
    assert tenant_of("/convert", forged) in (tenant_of("/convert", honest), "/convert")
    assert tenant_of("/convert", converted({"namespace": "victim"})).split() == ["mine"]


def test_a_conversion_is_of_no_user_whatever_its_job_holds() -> None:
    forged = converted({}, {"userInfo": {"username": "root"}})
    assert tenant_of("/convert", forged) == tenant_of("/convert", converted({}))


@pytest.mark.parametrize("body", [b"", b"\xff" * 9000, b'{"request":{}}', b'"namespace":"' * 900])
def test_a_body_that_names_no_tenant_is_of_its_path(body: bytes) -> None:
    assert tenant_of("/convert", body) == "/convert"
