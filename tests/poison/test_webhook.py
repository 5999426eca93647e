"""The webhook answers about whatever an API server may send it, and converts it both ways."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.conversion.versions import VERSIONS as API_VERSIONS
from di_api.names import GROUP, KIND
from di_webhook import conversion_review
from di_webhook.admission import mutate, validate
from di_webhook.review import Answer, Outcome
from tests.poison import FEW
from tests.poison.objects import VERSIONS, Object, jobs, wild_jobs

ANY_JOB = st.sampled_from(VERSIONS).flatmap(jobs) | wild_jobs()


@pytest.mark.parametrize("ask", [mutate, validate], ids=["mutate", "validate"])
@FEW
@given(new=ANY_JOB, old=st.none() | ANY_JOB, version=st.sampled_from(VERSIONS))
def test_every_job_is_allowed_or_refused(
    ask: Callable[[bytes], Answer], new: Object, old: Object | None, version: str
) -> None:
    request = {
        "uid": "1",
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": GROUP, "version": VERSIONS[0], "kind": KIND},
        "requestKind": {"group": GROUP, "version": version, "kind": KIND},
        "namespace": "ns",
        "name": new["metadata"]["name"],
        "object": new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = ask(json.dumps(review).encode())
    assert answer.status == 200
    assert json.dumps(answer.body)
    if not answer.body["response"]["allowed"]:
        assert answer.body["response"]["status"]["message"]


@FEW
@given(st.lists(ANY_JOB, min_size=1, max_size=3))
def test_every_job_is_converted_and_converted_back(some: list[Object]) -> None:
    for version in API_VERSIONS:
        there = converted(some, version)
        for before, after in zip(some, converted(there, some[0]["apiVersion"]), strict=True):
            if before["apiVersion"] == some[0]["apiVersion"]:
                assert after.get("spec") == before.get("spec")


def converted(objects: list[Object], version: str) -> list[Object]:
    review = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "1", "desiredAPIVersion": version, "objects": objects},
    }
    answer = conversion_review.answer(json.dumps(review).encode())
    assert (answer.status, answer.outcome) == (200, Outcome.CONVERTED), answer.message
    result: list[Object] = json.loads(json.dumps(answer.body))["response"]["convertedObjects"]
    return result
