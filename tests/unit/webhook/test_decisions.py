"""What the webhook allows, changes and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.validation import validate_job
from di_webhook.admission import MAX_ERRORS_SHOWN, mutate, validate
from di_webhook.review import Answer, Outcome
from tests.unit.webhook.reviews import UID, job, patch_of, review


def response(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200
    assert answer.body["apiVersion"] == "admission.k8s.io/v1"
    assert answer.body["kind"] == "AdmissionReview"
    inner: dict[str, Any] = answer.body["response"]
    assert inner["uid"] == UID
    return inner


@pytest.mark.parametrize("decide", [mutate, validate])
def test_a_complete_valid_job_is_allowed_without_a_patch(decide: Any) -> None:
    assert response(decide(review(job()))) == {"uid": UID, "allowed": True}


@pytest.mark.proves("dijob.md#when-a-job-is-refused")
def test_all_errors_come_at_once_with_their_paths() -> None:
    bad = job(priority="urgent", backoffLimit=-1)
    bad["spec"]["tasks"][0]["replicas"] = 0
    answer = validate(review(bad))
    status = response(answer)["status"]
    assert answer.outcome is Outcome.DENIED
    assert (status["code"], status["reason"]) == (422, "Invalid")
    causes = status["details"]["causes"]
    paths = {cause["field"] for cause in causes}
    assert not [each for each in causes if each["message"].startswith(each["field"])]
    assert {"spec.priority", "spec.backoffLimit", "spec.tasks[0].replicas"} <= paths
    for path in paths:
        assert path in status["message"]


def test_a_job_with_very_many_errors_gets_a_bounded_answer() -> None:
    bad = job(tasks=[{"type": "none", "name": "", "replicas": 0, "template": {}}] * 2000)
    assert len(validate_job(bad)) > MAX_ERRORS_SHOWN
    status = response(validate(review(bad)))["status"]
    assert len(status["details"]["causes"]) == MAX_ERRORS_SHOWN
    assert "more" in status["message"].split("; ")[-1]
    assert len(json.dumps(status)) < 64 * 1024


def test_missing_defaults_come_as_a_json_patch() -> None:
    bare = job()
    del bare["spec"]["priority"], bare["spec"]["tasks"][0]["name"]
    answer = mutate(review(bare))
    assert response(answer)["patchType"] == "JSONPatch"
    patch = patch_of(answer)
    assert {"op": "add", "path": "/spec/priority", "value": "normal"} in patch
    assert {"op": "add", "path": "/spec/tasks/0/name", "value": "learner"} in patch


def _patched(new: Any, **request: Any) -> Any:
    """What a mutating review adds to the spec, by field."""
    patch = patch_of(mutate(review(new, **request)))
    return {each["path"].removeprefix("/spec/"): each["value"] for each in patch}


@pytest.mark.proves("roles.md#several-tasks-of-a-type/successpolicy-that-new-jobs-get")
def test_a_new_job_gets_a_success_policy_of_its_learners() -> None:
    new = job(successPolicy=None)
    new["spec"]["tasks"][0] = {**new["spec"]["tasks"][0], "name": "policy"}
    policy = {"tasks": ["policy"], "operator": "All", "gracePeriodSeconds": 30}
    assert _patched(new) == {"successPolicy": policy}
    del new["spec"]["tasks"][0]["name"]
    assert _patched(new)["successPolicy"] == {**policy, "tasks": ["learner"]}
    critic = {**new["spec"]["tasks"][0], "name": "critic"}
    new["spec"]["tasks"].append(critic)
    assert _patched(new)["successPolicy"] == {**policy, "tasks": ["learner", "critic"]}
    critic["onCompletion"] = "CompleteJob"
    assert _patched(new)["successPolicy"] == {**policy, "tasks": ["learner", "critic"]}
    critic["onCompletion"] = "RestartTask"
    assert _patched(new)["successPolicy"] == {**policy, "tasks": ["learner"]}
    del critic["onCompletion"]
    new["spec"]["tasks"] = [{**critic, "type": "collector"}]
    assert "successPolicy" not in _patched(new)


def test_a_new_job_gets_a_failure_policy() -> None:
    new = job(failurePolicy=None)
    new["spec"]["tasks"][0]["type"] = "collector"
    rules = [{"onConditions": ["DisruptionTarget"], "action": "Ignore"}]
    given = {"failurePolicy": {"rules": rules}, "tasks/0/backoffLimit": "Unlimited"}
    assert _patched(new) == given
    assert _patched(new, old=job(failurePolicy=None), operation="UPDATE") == {}


@pytest.mark.parametrize(
    "policy", [None, {"tasks": ["learner"], "operator": "Any", "gracePeriodSeconds": 5}]
)
def test_a_replaced_job_keeps_its_success_policy_or_none(policy: Any) -> None:
    new, old = job(successPolicy=None), job(successPolicy=policy)
    kept = {} if policy is None else {"successPolicy": policy}
    assert _patched(new, old=old, operation="UPDATE") == kept


def test_an_update_may_scale_and_may_not_change_the_template() -> None:
    new = job(backoffLimit=5)
    new["spec"]["tasks"][0]["replicas"] = 2
    assert response(validate(review(new, old=job(), operation="UPDATE")))["allowed"] is True
    new["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = "other"
    status = response(validate(review(new, old=job(), operation="UPDATE")))["status"]
    assert "spec.tasks[0].template" in status["message"]


@pytest.mark.parametrize("decide", [mutate, validate])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(review(None, old=job(replicas=0), operation="DELETE"), id="a delete"),
        pytest.param(review({}, operation="CONNECT"), id="a connect"),
        pytest.param(review({}, operation="UPDATE", subResource="status"), id="a status write"),
    ],
)
def test_other_operations_are_allowed(decide: Any, body: bytes) -> None:
    assert response(decide(body)) == {"uid": UID, "allowed": True}


@pytest.mark.parametrize("decide", [mutate, validate])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            review({}, kind={"group": "", "version": "v1", "kind": "Pod"}), id="another kind"
        ),
        pytest.param(review(None), id="no object"),
        pytest.param(review([1]), id="an object that is a list"),
    ],
)
def test_a_review_of_no_job_is_denied_with_a_code(decide: Any, body: bytes) -> None:
    inner = response(decide(body))
    assert inner["allowed"] is False
    assert inner["status"]["code"] == 400
    assert inner["status"]["message"]


def test_an_update_without_the_old_object_is_denied() -> None:
    inner = response(validate(review(job(), operation="UPDATE")))
    assert inner["allowed"] is False
    assert "oldObject" in inner["status"]["message"]


@pytest.mark.parametrize("spec", [None, 1, [], "x"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_job_without_a_spec_gets_no_patch_and_is_refused(spec: Any, operation: str) -> None:
    body = review({**job(), "spec": spec}, old=job(), operation=operation)
    assert patch_of(mutate(body)) == []
    assert "must be an object" in response(validate(body))["status"]["message"]


@pytest.mark.parametrize("field", ["failurePolicy", "successPolicy"])
def test_a_policy_stays_when_a_file_replaces_the_job_and_goes_when_it_is_taken_away(
    field: str,
) -> None:
    old = job()
    old["metadata"]["uid"] = "1"
    bare, patched = job(), job()
    patched["metadata"]["uid"] = "1"
    for new in (bare, patched):
        del new["spec"][field]
    (kept,) = patch_of(mutate(review(bare, old=old, operation="UPDATE")))
    assert kept == {"op": "add", "path": f"/spec/{field}", "value": old["spec"][field]}
    assert patch_of(mutate(review(patched, old=old, operation="UPDATE"))) == []
