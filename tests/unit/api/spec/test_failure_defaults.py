"""The failure policy that new jobs get, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.failure_defaults import failure_policy_patch, limits_patch
from di_api.validation import validate_job
from tests.unit.api.jobs import Job, coordinated_job, job, of_spec, task

IGNORED = {"onConditions": ["DisruptionTarget"], "action": "Ignore"}


def given(new: Job, old: Job | None = None) -> dict[str, Any]:
    patch = failure_policy_patch(new, old) + (limits_patch(new) if old is None else [])
    assert {each["op"] for each in patch} <= {"add"}
    return {each["path"]: each["value"] for each in patch}


def limited(kind: str, **fields: Any) -> Job:
    made = task(kind, **fields)
    made["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    return made


def grows(action: str, *tasks: str) -> Job:
    oom = {"onReasons": ["OOMKilled"], "action": action, "growMemory": {"factor": 2}}
    return {"tasks": [*tasks], **oom}


ELASTIC: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 4, "processGroup": {"elastic": True}}
SEVERAL = job(task(name="policy", replicas=2), task(name="critic", replicas=3), task())


@pytest.mark.proves("lifecycle.md#failure/all-tasks", "dijob.md#spec/failurepolicy")
@pytest.mark.proves(
    "lifecycle.md#failure/a-learner-that-may-have-several-pods-and-action-restarttask-a-process-group-takes",
    "roles.md#several-tasks-of-a-type/failurepolicy-that-new-jobs-get",
)
@pytest.mark.parametrize(
    ("new", "learners"),
    [
        (job(), []),
        (job(task(replicas=2)), ["learner"]),
        (job(task(maxReplicas=2)), ["learner"]),
        (SEVERAL, ["policy", "critic"]),
        (job(task(**ELASTIC)), []),
        (job(task(), task("none", name="a", replicas=2)), []),
        (job(task(replicas=2, podsPerReplica=2)), []),
    ],
)
def test_learners_of_several_pods_restart_as_a_whole(new: Job, learners: list[str]) -> None:
    whole = [{"tasks": learners, "action": "RestartTask"}] if learners else []
    assert given(new) == {"/spec/failurePolicy": {"rules": [IGNORED, *whole]}}


@pytest.mark.proves(
    "lifecycle.md#failure/a-learner-that-may-have-several-pods-and-onreasons-oomkilled-action-restarttask",
    "lifecycle.md#failure/other-tasks-with-a-memory-limit",
)
def test_containers_with_a_memory_limit_get_growing_memory() -> None:
    new = job(
        limited("learner", replicas=2), limited("none", name="buffer"), task("none", name="a")
    )
    assert given(new)["/spec/failurePolicy"]["rules"] == [
        IGNORED,
        grows("RestartTask", "learner"),
        grows("Restart", "buffer"),
        {"tasks": ["learner"], "action": "RestartTask"},
    ]


@pytest.mark.proves("lifecycle.md#failure/collectors-and-evaluators")
def test_collectors_and_evaluators_have_unlimited_restarts() -> None:
    new = job(task(), task("collector"), task("evaluator"), task("none", name="a"))
    patch = given(new)
    assert patch.pop("/spec/failurePolicy")
    assert patch == {f"/spec/tasks/{index}/backoffLimit": "Unlimited" for index in (1, 2)}
    assert "/spec/tasks/0/backoffLimit" not in given(job(task("collector", backoffLimit=3)))


def test_a_job_with_the_default_policy_is_accepted() -> None:
    new = job(limited("learner", replicas=4), limited("collector", replicas=8))
    for path, value in given(new).items():
        *_, owner, field = path.split("/")
        target = new["spec"] if owner == "spec" else new["spec"]["tasks"][int(owner)]
        target[field] = value
    assert validate_job(new) == []
    assert given(new) == {}


@pytest.mark.parametrize("name", [7, None, ["learner"]])
def test_a_task_whose_name_is_no_text_gets_no_rule(name: object) -> None:
    nameless = limited("none", replicas=2)
    nameless["name"] = name
    new = job(limited("learner", replicas=2), nameless)
    assert given(new)["/spec/failurePolicy"]["rules"] == [
        IGNORED,
        grows("RestartTask", "learner"),
        {"tasks": ["learner"], "action": "RestartTask"},
    ]


def test_a_job_that_has_or_had_a_policy_gets_no_other() -> None:
    assert given(job(task(), failurePolicy={})) == {}
    bare = job(task(), task("collector"))
    assert given(bare, bare) == {}
    old = job(task(), task("collector", backoffLimit=7), failurePolicy={"replicaBackoffLimit": 2})
    assert given(bare, old) == {"/spec/failurePolicy": {"replicaBackoffLimit": 2}}


def test_a_coordinated_or_unreadable_job_gets_no_policy() -> None:
    assert given(coordinated_job()) == {}
    for spec in ({}, {"tasks": 3}, {"tasks": [3, {"type": 3, "template": 3}]}, None):
        assert isinstance(given(of_spec(spec)), dict)
