"""Jobs with a queue: suspended when they are made, and bound to it while they run."""

from __future__ import annotations

from typing import Any

import pytest

from di_webhook.admission import mutate, validate
from tests.unit.webhook.reviews import UID, job, patch_of, review

QUEUE = "kueue.x-k8s.io/queue-name"
SUSPENDED_BY = "/metadata/annotations/diengine~1suspended-by"


def queued(queue: str = "team", **spec: Any) -> dict[str, Any]:
    body = job(**spec)
    body["metadata"]["labels"] = {QUEUE: queue}
    return body


def refusals(old: dict[str, Any], new: dict[str, Any]) -> str:
    response = validate(review(new, old=old, operation="UPDATE")).body["response"]
    message: str = response.get("status", {}).get("message", "")
    return message


@pytest.mark.parametrize("annotations", [{"mine": "kept"}, None])
def test_a_new_job_with_a_queue_is_suspended(annotations: dict[str, str] | None) -> None:
    body = queued()
    if annotations is not None:
        body["metadata"]["annotations"] = annotations
    object_ = {"op": "add", "path": "/metadata/annotations", "value": {}}
    assert patch_of(mutate(review(body))) == [
        {"op": "add", "path": "/spec/suspend", "value": True},
        *([] if annotations else [object_]),
        {"op": "add", "path": SUSPENDED_BY, "value": "queue"},
    ]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(review(job()), id="no queue"),
        pytest.param(review(queued("")), id="an empty label"),
        pytest.param(review(queued(suspend=True)), id="suspended by its user"),
        pytest.param(review(queued(), old=queued(suspend=True), operation="UPDATE"), id="resumed"),
    ],
)
def test_other_jobs_are_not_suspended(body: bytes) -> None:
    assert patch_of(mutate(body)) == []


def test_a_provisioning_class_beside_a_queue_is_refused() -> None:
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
    assert not refusals({**old, "spec": {**old["spec"], "suspend": True}}, new)
    assert not refusals({**old, "status": {"phase": "Succeeded"}}, new)


MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def sent(replicas: int = 1, **status: Any) -> dict[str, Any]:
    """A job that another cluster is to run, as the webhook let it in."""
    body = queued(managedBy=MULTIKUEUE, suspend=True)
    body["metadata"]["annotations"] = {"diengine/suspended-by": "queue"}
    body["spec"]["tasks"][0]["replicas"] = replicas
    return body | ({"status": status} if status else {})


def test_a_multikueue_job_needs_a_queue() -> None:
    message = validate(review(job(managedBy=MULTIKUEUE))).body["response"]["status"]["message"]
    assert message == (
        f'spec.managedBy: "{MULTIKUEUE}": {MULTIKUEUE} runs jobs with the label {QUEUE}, and this '
        "one has none"
    )
    for body in (queued(managedBy=MULTIKUEUE), job(managedBy="example.com/other")):
        assert validate(review(body)).body["response"]["allowed"]


def test_a_multikueue_job_may_change_only_while_suspended() -> None:
    runs, waits = (
        dict[str, Any](phase=phase, conditions=[{"type": "Queued", "status": status}])
        for phase, status in (("Running", "False"), ("Pending", "True"))
    )
    runs["conditions"].append({"type": "Ready", "status": "True"})
    refusal = "spec.tasks[0].replicas: 2: may not change while another cluster runs the job"
    assert refusals(sent(**runs), sent(2)).startswith(refusal)
    assert not refusals(sent(**waits), sent(2))
    assert not refusals(sent(), sent(2))
    by_user = sent(**runs)
    by_user["metadata"]["annotations"] = {}
    assert not refusals(by_user, sent(2))
    # What concerns the manager's cluster alone.
    kept = sent()
    kept["spec"] |= {"suspend": False, "ttlSecondsAfterFinished": 60}
    assert not refusals(sent(**runs), kept)
