"""What the webhook allows, changes and refuses."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from di_api.validation import validate_job
from di_webhook.admission import MAX_ERRORS_SHOWN, mutate, validate
from di_webhook.review import Answer, Outcome
from tests.unit.webhook.reviews import UID, job, review


def response(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200
    assert answer.body["apiVersion"] == "admission.k8s.io/v1"
    assert answer.body["kind"] == "AdmissionReview"
    inner: dict[str, Any] = answer.body["response"]
    assert inner["uid"] == UID
    return inner


def test_a_valid_job_is_allowed() -> None:
    assert response(validate(review(job()))) == {"uid": UID, "allowed": True}


def test_all_errors_come_at_once_with_their_paths() -> None:
    bad = job(priority="urgent", backoffLimit=-1)
    bad["spec"]["tasks"][0]["replicas"] = 0
    answer = validate(review(bad))
    status = response(answer)["status"]
    assert answer.outcome is Outcome.DENIED
    assert (status["code"], status["reason"]) == (422, "Invalid")
    paths = {cause["field"] for cause in status["details"]["causes"]}
    assert {"spec.priority", "spec.backoffLimit", "spec.tasks[0].replicas"} <= paths
    for path in paths:
        assert path in status["message"]


def test_a_cause_does_not_repeat_the_path_of_its_field() -> None:
    causes = response(validate(review(job(tasks=[]))))["status"]["details"]["causes"]
    assert causes
    for cause in causes:
        assert not cause["message"].startswith(cause["field"])


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
    inner = response(mutate(review(bare)))
    assert inner["allowed"] is True
    assert inner["patchType"] == "JSONPatch"
    patch = json.loads(base64.b64decode(inner["patch"]))
    assert {"op": "add", "path": "/spec/priority", "value": "normal"} in patch
    assert {"op": "add", "path": "/spec/tasks/0/name", "value": "learner"} in patch


def test_a_complete_job_gets_no_patch() -> None:
    assert response(mutate(review(job()))) == {"uid": UID, "allowed": True}


def _patched(new: Any, **request: Any) -> Any:
    """What a mutating review adds to the spec, by field."""
    answer = response(mutate(review(new, **request)))
    patch = json.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
    return {each["path"].removeprefix("/spec/"): each["value"] for each in patch}


def test_a_new_job_ends_with_its_learners() -> None:
    new = job(successPolicy=None)
    new["spec"]["tasks"][0] = {**new["spec"]["tasks"][0], "name": "policy"}
    policy = {"tasks": ["policy"], "operator": "All", "gracePeriodSeconds": 30}
    assert _patched(new) == {"successPolicy": policy}
    del new["spec"]["tasks"][0]["name"]
    assert _patched(new)["successPolicy"] == {**policy, "tasks": ["learner"]}
    critic = {**new["spec"]["tasks"][0], "name": "critic"}
    new["spec"]["tasks"].append(critic)
    assert _patched(new)["successPolicy"] == {**policy, "tasks": ["learner", "critic"]}
    new["spec"]["tasks"] = [{**critic, "type": "collector"}]
    assert "successPolicy" not in _patched(new)


def test_a_new_job_gets_rules_about_failures() -> None:
    new = job(failurePolicy=None)
    new["spec"]["tasks"][0]["type"] = "collector"
    rules = [{"onConditions": ["DisruptionTarget"], "action": "Ignore"}]
    given = {"failurePolicy": {"rules": rules}, "tasks/0/backoffLimit": "Unlimited"}
    assert _patched(new) == given
    assert _patched(new, old=job(failurePolicy=None), operation="UPDATE") == {}


def test_a_job_that_has_no_success_policy_gets_none_later() -> None:
    old = job(successPolicy=None)
    assert _patched(job(successPolicy=None), old=old, operation="UPDATE") == {}


def test_a_job_that_is_replaced_keeps_its_success_policy() -> None:
    policy = {"tasks": ["learner"], "operator": "Any", "gracePeriodSeconds": 5}
    new, old = job(successPolicy=None), job(successPolicy=policy)
    assert _patched(new, old=old, operation="UPDATE") == {"successPolicy": policy}


def test_an_update_may_scale() -> None:
    new = job()
    new["spec"]["tasks"][0]["replicas"] = 1
    new["spec"]["backoffLimit"] = 5
    assert response(validate(review(new, old=job(), operation="UPDATE")))["allowed"] is True


def test_an_update_may_not_change_the_template_of_a_living_job() -> None:
    new = job()
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
def test_what_the_rules_do_not_cover_is_never_hindered(decide: Any, body: bytes) -> None:
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
def test_what_cannot_be_judged_is_denied_with_a_code(decide: Any, body: bytes) -> None:
    inner = response(decide(body))
    assert inner["allowed"] is False
    assert inner["status"]["code"] == 400
    assert inner["status"]["message"]


def test_an_update_without_the_old_object_is_denied() -> None:
    inner = response(validate(review(job(), operation="UPDATE")))
    assert inner["allowed"] is False
    assert "oldObject" in inner["status"]["message"]
