"""What a review may cost, counted in calls and bytes, whatever it holds."""

from __future__ import annotations

import cProfile
import json
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from di_api import names
from di_api.spec.bounds import MAX_SPEC_BYTES
from di_api.validation import job_errors
from di_webhook import conversion_review
from di_webhook.admission import (
    MAX_ERRORS_SHOWN,
    MAX_PATCH_BYTES,
    MAX_SHOWN_BYTES,
    mutate,
    validate,
)
from di_webhook.app import MAX_BODY_BYTES
from di_webhook.budget import Budget
from di_webhook.conversion_review import MAX_JOBS
from di_webhook.review import MAX_VALUES, Answer, Kind, Outcome
from tests.unit.api.jobs import template
from tests.unit.webhook.reviews import UID, job, review
from tools.hostile.reviews import FILLS, LARGEST, changes, worst_conversions
from tools.hostile.reviews import conversion as hostile_conversion
from tools.hostile.reviews import review as hostile_review

CALLS_PER_BYTE = 10
"""Of Python and C functions; 9.5 for templates that are checked again with their patch, otherwise
less than 5. The search for the field meant has 1,000 and more."""
CALLS_AT_ONCE = 250_000
"""Of what is done for the first errors, each with its hint."""
CALLS_PER_VALUE = 8
"""Of a change of a heavy job; 27 when a comparison visited what is behind the first difference."""
CALLS_OF_A_CHANGE = 50_000
"""Of such a change, whatever the job holds: the first errors, each with its hint."""
LARGEST_ANSWER = 4 * MAX_SHOWN_BYTES


def calls(work: Callable[[], Answer]) -> tuple[int, Answer]:
    """How many functions were called, and what came of it."""
    profile = cProfile.Profile()
    answer = profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats()), answer


@pytest.mark.parametrize("is_change", [False, True])
@pytest.mark.parametrize("name", FILLS)
def test_the_cost_of_a_review_follows_its_bytes(name: str, is_change: bool) -> None:
    new = FILLS[name](60_000)
    old = {**new, "spec": {**new["spec"], "backoffLimit": 1}} if is_change else None
    body = hostile_review(new, old=old)
    for decide in (validate, mutate):
        count, answer = calls(lambda decide=decide: decide(body))  # type: ignore[misc]
        assert count < CALLS_AT_ONCE + CALLS_PER_BYTE * len(body)
        assert len(json.dumps(answer.body)) < LARGEST_ANSWER


@pytest.mark.parametrize("name", FILLS)
def test_a_heavy_job_is_measured_and_compared_once_at_a_change(name: str) -> None:
    job = FILLS[name](LARGEST // 4)
    for _, changed in changes(job):
        body = hostile_review(changed, old=job)
        count, _ = calls(lambda body=body: validate(body))  # type: ignore[misc]
        values = sum(map(body.count, (b",", b"[", b"{")))
        assert count < CALLS_OF_A_CHANGE + CALLS_PER_VALUE * values


@pytest.mark.parametrize("name", FILLS)
def test_a_large_review_gets_a_small_answer(name: str) -> None:
    size = MAX_SPEC_BYTES
    for body in (
        hostile_review(FILLS[name](2 * size)),
        hostile_review(FILLS[name](size), old=FILLS[name](size)),
    ):
        for decide in (validate, mutate):
            answer = decide(body)
            assert answer.outcome in (Outcome.ALLOWED, Outcome.DENIED)
            # Defaults within a list come with the list.
            assert len(json.dumps(answer.body)) < max(LARGEST_ANSWER, 2 * len(body))


@pytest.mark.parametrize("name", ["ports", "volumes", "variables"])
def test_a_spec_that_becomes_too_heavy_gets_no_defaults(name: str) -> None:
    body = hostile_review(FILLS[name](4 * MAX_SPEC_BYTES), old=job())
    assert validate(body).outcome is Outcome.DENIED
    assert "patch" not in mutate(body).body["response"]


def test_a_change_of_the_largest_jobs_is_a_body_that_is_read() -> None:
    assert len(hostile_review(FILLS["escapes"](LARGEST))) < MAX_BODY_BYTES


def test_empty_tasks_past_the_bound_get_no_defaults() -> None:
    answer = mutate(review({**job(), "spec": {"tasks": [{}] * 5000}}))
    assert len(json.dumps(answer.body)) < 32 * 1024


@pytest.mark.proves("security.md#what-a-review-may-cost/50-errors-or-32-kib-of-them")
def test_errors_after_the_last_one_shown_are_not_looked_for() -> None:
    looked = 0

    class Counted(dict[str, Any]):
        @override
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal looked
            looked += key == "podsPerReplica"
            return super().get(key, default)

    bad = job(**{f"unknown{index}": 0 for index in range(100)})
    bad["spec"]["tasks"] = [Counted(bad["spec"]["tasks"][0])]
    errors = job_errors(bad)
    for _ in range(MAX_ERRORS_SHOWN):
        next(errors)
    assert looked <= 1


@pytest.mark.proves("security.md#what-a-review-may-cost/393-216-values-objects-lists-texts")
def test_a_review_of_too_many_values_is_denied_unread() -> None:
    body = review({**job(), "x": [0] * MAX_VALUES})
    for decide in (validate, mutate):
        answer = decide(body)
        assert answer.status == 200
        assert answer.body["response"]["uid"] == UID
        status = answer.body["response"]["status"]
        assert status["code"] == 413
        assert f"more than {MAX_VALUES}" in status["message"]
    assert validate(body[body.index(b'"object"') :].replace(b'"object"', b"{", 1)).status == 400


@pytest.mark.proves("security.md#what-a-review-may-cost/1-s-of-processor-time")
def test_a_review_that_takes_its_processor_time_is_denied() -> None:
    seconds = iter(range(100))
    budget = Budget(seconds=3, clock=lambda: next(seconds))
    answer = validate(review(job(backoffLimit=-1)), check=budget.check)
    assert answer.outcome is Outcome.DENIED
    assert "processor time" in answer.message


@pytest.mark.proves("security.md#what-a-review-may-cost/1-s-of-processor-time")
def test_a_conversion_that_takes_its_processor_time_fails() -> None:
    seconds = iter(range(100))
    budget = Budget(seconds=3, clock=lambda: next(seconds))
    request = {"uid": UID, "desiredAPIVersion": f"{names.GROUP}/v1alpha1", "objects": [job()] * 9}
    body = json.dumps({"request": request} | kind_of(conversion_review.REVIEW)).encode()
    result = conversion_review.answer(body, budget.check).body["response"]["result"]
    assert result["status"] == "Failed"
    assert "processor time" in result["message"]
    assert next(seconds) < 9


@pytest.mark.proves("security.md#what-a-review-may-cost/8-192-jobs")
def test_a_conversion_of_too_many_jobs_converts_none() -> None:
    checked: list[None] = []
    for count, converts in ((MAX_JOBS, True), (MAX_JOBS + 1, False)):
        body = hostile_conversion([{"apiVersion": names.API_VERSION, "kind": names.KIND}] * count)
        checked.clear()
        found = conversion_review.answer(body, lambda: checked.append(None))
        assert (found.outcome is Outcome.CONVERTED) == converts
        assert len(checked) == (count if converts else 0)
    assert found.message == "8193 jobs are more than 8192; list fewer"


@pytest.mark.proves("security.md#what-a-review-may-cost/8-192-jobs")
def test_a_body_with_more_stored_jobs_is_too_large() -> None:
    stored = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": "a",
            "namespace": "b",
            "uid": UID,
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                {
                    "manager": "a",
                    "operation": "Update",
                    "apiVersion": names.API_VERSION,
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {".": {}, "f:tasks": {}}},
                }
            ],
        },
        "spec": {"tasks": [{"name": "a", "type": "none", "template": template()}]},
    }
    assert len(hostile_conversion([stored] * MAX_JOBS)) > MAX_BODY_BYTES


@pytest.mark.parametrize("name", dict(worst_conversions()))
def test_the_cost_of_a_conversion_follows_its_bytes(name: str) -> None:
    for size in (30_000, LARGEST // 2):
        body = dict(worst_conversions(size))[name]
        count, answer = calls(lambda body=body: conversion_review.answer(body))  # type: ignore[misc]
        assert answer.outcome is Outcome.CONVERTED or str(MAX_JOBS) in answer.message
        assert count < CALLS_PER_BYTE * len(body)


def kind_of(review: Kind) -> dict[str, str]:
    return {"apiVersion": review.api_version, "kind": review.kind}


def test_a_spec_above_the_bound_is_refused_with_its_largest_part() -> None:
    large = job()
    container = large["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "SCRIPT", "value": "x" * MAX_SPEC_BYTES}]
    answer = validate(review(large))
    (cause,) = answer.body["response"]["status"]["details"]["causes"]
    assert cause["field"] == "spec"
    size = len(json.dumps(large["spec"], separators=(",", ":")))
    assert f"has {size} bytes as JSON, and a job may have {MAX_SPEC_BYTES}" in cause["message"]
    assert "% of it is spec.tasks[0].template.spec.containers[0].env" in cause["message"]


@pytest.mark.proves("security.md#what-a-review-may-cost/3-mib")
def test_a_patch_above_the_bound_is_denied() -> None:
    large = job()
    large["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"a": "x" * 2_500_000}}
    shown = {**large, "spec": {"coordinated": {}}}
    version = {"group": "diengine.opendilab.org", "version": "v1alpha1", "kind": "DIJob"}
    answer = mutate(review(shown, old=large, operation="UPDATE", requestKind=version))
    assert answer.body["response"]["status"]["code"] == 413
    assert f"more than {MAX_PATCH_BYTES}" in answer.message
