"""The failure policy that new jobs get, and what becomes of it."""

from __future__ import annotations

from typing import Any

from di_api.failure_defaults import failure_policy_patch
from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, of_spec, task, template

IGNORED = {"onConditions": ["DisruptionTarget"], "action": "Ignore"}


def given(new: Job, old: Job | None = None) -> dict[str, Any]:
    return {each["path"]: each["value"] for each in failure_policy_patch(new, old)}


def limited(kind: str, **fields: Any) -> Job:
    made = task(kind, **fields)
    made["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    return made


def grows(action: str, *tasks: str) -> Job:
    oom = {"onReasons": ["OOMKilled"], "action": action, "growMemory": {"factor": 2}}
    return {"tasks": [*tasks], **oom}


def test_what_the_cluster_ends_is_not_counted() -> None:
    assert given(job(task())) == {"/spec/failurePolicy": {"rules": [IGNORED]}}


def test_a_learner_of_several_pods_is_replaced_as_a_whole() -> None:
    whole = {"tasks": ["learner"], "action": "RestartTask"}
    for size in ("replicas", "maxReplicas"):
        assert given(job({**task(), size: 2})) == {
            "/spec/failurePolicy": {"rules": [IGNORED, whole]}
        }


def test_so_is_each_of_several_learner_tasks() -> None:
    new = job(task(name="policy", replicas=2), task(name="critic", replicas=3), task())
    whole = {"tasks": ["policy", "critic"], "action": "RestartTask"}
    assert given(new)["/spec/failurePolicy"] == {"rules": [IGNORED, whole]}


def test_an_elastic_learner_takes_its_members_back_one_by_one() -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 4, "processGroup": {"elastic": True}}
    assert given(job({**task(), **elastic})) == {"/spec/failurePolicy": {"rules": [IGNORED]}}


def test_replicas_of_several_pods_are_replaced_one_by_one() -> None:
    groups = task(replicas=2, podsPerReplica=2)
    assert given(job(groups)) == {"/spec/failurePolicy": {"rules": [IGNORED]}}


def test_containers_with_a_memory_limit_get_more_of_it() -> None:
    new = job(
        limited("learner", replicas=2), limited("none", name="buffer"), task("none", name="a")
    )
    assert given(new)["/spec/failurePolicy"]["rules"] == [
        IGNORED,
        grows("RestartTask", "learner"),
        grows("Restart", "buffer"),
        {"tasks": ["learner"], "action": "RestartTask"},
    ]


def test_collectors_and_evaluators_have_no_limit_of_their_restarts() -> None:
    new = job(task(), task("collector"), task("evaluator"), task("none", name="a"))
    patch = given(new)
    assert patch.pop("/spec/failurePolicy")
    assert patch == {f"/spec/tasks/{index}/backoffLimit": "Unlimited" for index in (1, 2)}
    assert "/spec/tasks/0/backoffLimit" not in given(job(task("collector", backoffLimit=3)))


def test_a_policy_that_is_given_stays() -> None:
    assert given(job(task(), failurePolicy={})) == {}


def test_what_is_filled_in_is_taken() -> None:
    new = job(limited("learner", replicas=4), limited("collector", replicas=8))
    for path, value in given(new).items():
        *_, owner, field = path.split("/")
        target = new["spec"] if owner == "spec" else new["spec"]["tasks"][int(owner)]
        target[field] = value
    assert validate_job(new) == []
    assert given(new) == {}


def test_a_job_that_has_none_gets_none_later() -> None:
    old = job(task(), task("collector"))
    assert given(job(task(), task("collector")), old) == {}


def test_a_job_that_is_replaced_keeps_its_policy_and_limits() -> None:
    old = job(task(), task("collector", backoffLimit=7), failurePolicy={"replicaBackoffLimit": 2})
    assert given(job(task(), task("collector")), old) == {
        "/spec/failurePolicy": {"replicaBackoffLimit": 2},
        "/spec/tasks/1/backoffLimit": 7,
    }


def test_a_job_with_a_coordinator_gets_none() -> None:
    coordinated = {"coordinator": {"template": template()}}
    assert given(of_spec({"coordinated": coordinated})) == {}


def test_any_shape_is_taken() -> None:
    for spec in ({}, {"tasks": 3}, {"tasks": [3, {"type": 3, "template": 3}]}, None):
        assert isinstance(given(of_spec(spec)), dict)
