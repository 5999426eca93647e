"""Jobs with a queue: suspended when they are made, and bound to it while they run."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from di_webhook.admission import mutate, validate
from tests.unit.webhook.reviews import UID, job, review

QUEUE = "kueue.x-k8s.io/queue-name"
SUSPENDED_BY = "/metadata/annotations/diengine~1suspended-by"


def queued(queue: str = "team", **spec: Any) -> dict[str, Any]:
    body = job(**spec)
    body["metadata"]["labels"] = {QUEUE: queue}
    return body


def patch_of(body: bytes) -> list[dict[str, Any]]:
    response = mutate(body).body["response"]
    assert response["allowed"]
    patch: list[dict[str, Any]] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return patch


def refusals(old: dict[str, Any], new: dict[str, Any]) -> str:
    response = validate(review(new, old=old, operation="UPDATE")).body["response"]
    message: str = response.get("status", {}).get("message", "")
    return message


def test_a_new_job_with_a_queue_is_suspended_by_it() -> None:
    body = queued()
    body["metadata"]["annotations"] = {"mine": "kept"}
    assert patch_of(review(body)) == [
        {"op": "add", "path": "/spec/suspend", "value": True},
        {"op": "add", "path": SUSPENDED_BY, "value": "queue"},
    ]


def test_it_is_noted_also_where_there_was_no_annotation() -> None:
    assert patch_of(review(queued())) == [
        {"op": "add", "path": "/spec/suspend", "value": True},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": SUSPENDED_BY, "value": "queue"},
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(job(), id="no queue"),
        pytest.param(queued(""), id="an empty label"),
        pytest.param(queued(suspend=True), id="suspended by its user"),
    ],
)
def test_others_are_as_they_were(body: dict[str, Any]) -> None:
    assert patch_of(review(body)) == []


def test_a_queue_asks_for_nodes_itself() -> None:
    body = queued(scheduling={"provisioningClassName": "a"})
    message = validate(review(body)).body["response"]["status"]["message"]
    assert message.startswith(
        'spec.scheduling.provisioningClassName: "a": does not go with the label '
        "kueue.x-k8s.io/queue-name: there an admission check of Kueue asks for nodes"
    )
    assert validate(review(job(scheduling={"provisioningClassName": "a"}))).body["response"] == {
        "uid": UID,
        "allowed": True,
    }


def test_one_that_is_resumed_is_not_suspended_again() -> None:
    old = queued(suspend=True)
    assert patch_of(review(queued(), old=old, operation="UPDATE")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(queued("a"), queued("b"), id="another one"),
        pytest.param(job(), queued(), id="one it had not"),
        pytest.param(queued(), job(), id="taken away"),
    ],
)
def test_a_job_that_runs_keeps_its_queue(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert "may not change while the job is admitted or runs" in refusals(old, new)
    old["spec"]["suspend"] = True
    assert not refusals(old, new)
    old["spec"]["suspend"], old["status"] = False, {"phase": "Succeeded"}
    assert not refusals(old, new)


MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def sent(replicas: int = 1, **status: Any) -> dict[str, Any]:
    """A job that another cluster is to run, as the webhook let it in."""
    body = queued(managedBy=MULTIKUEUE, suspend=True)
    body["metadata"]["annotations"] = {"diengine/suspended-by": "queue"}
    body["spec"]["tasks"][0]["replicas"] = replicas
    return body | ({"status": status} if status else {})


def test_what_another_cluster_is_to_run_needs_a_queue_that_sends_it_there() -> None:
    message = validate(review(job(managedBy=MULTIKUEUE))).body["response"]["status"]["message"]
    assert message.startswith(f'spec.managedBy: "{MULTIKUEUE}": {MULTIKUEUE} runs jobs with')
    for body in (queued(managedBy=MULTIKUEUE), job(managedBy="example.com/other")):
        assert validate(review(body)).body["response"]["allowed"]


def test_what_another_cluster_runs_is_suspended_before_it_changes() -> None:
    runs: dict[str, Any] = {
        "phase": "Running",
        "conditions": [{"type": "Queued", "status": "False"}],
    }
    waits: dict[str, Any] = {
        "phase": "Pending",
        "conditions": [{"type": "Queued", "status": "True"}],
    }
    assert "while another cluster runs the job" in refusals(sent(**runs), sent(2))
    assert not refusals(sent(**waits), sent(2))
    assert not refusals(sent(), sent(2))
    by_user = sent(**runs)
    by_user["metadata"]["annotations"] = {}
    assert not refusals(by_user, sent(2))
    # What concerns the manager's cluster alone.
    kept = sent()
    kept["spec"] |= {"suspend": False, "ttlSecondsAfterFinished": 60}
    assert not refusals(sent(**runs), kept)
