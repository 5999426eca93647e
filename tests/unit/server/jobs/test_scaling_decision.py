"""What a scaling request writes, and when it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import MAX_PODS
from di_server.config import DEFAULT_MAX_REPLICAS
from di_server.jobs.idempotency import (
    IdempotencyKey,
    IdempotencyRecords,
    ScalingResult,
    recording,
)
from di_server.jobs.requests import addition, removal, setting
from di_server.jobs.scaling import Replay, ScalingPatch, ScalingRequest, decide
from di_server.problems import Malformed, NotNow, OutOfBounds, Problem
from tests.unit.server.fakes import Object, job, task

UP = ScalingRequest(1)


def scaled(*tasks: Object, **more: Any) -> Object:
    return job(tasks=tasks or None, **more)


def collectors(replicas: int, **more: object) -> Object:
    """A job of collectors alone."""
    return scaled(task("collector", replicas, **more))


def test_only_the_replicas_change_and_only_under_the_version_read() -> None:
    assert decide(job(), UP, None) == ScalingPatch(
        [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "add", "path": "/spec/tasks/1/replicas", "value": 3},
        ],
        ScalingResult("collector", 3),
    )


UNNAMED = {"type": "learner", "template": {}}


@pytest.mark.proves(
    "roles.md#several-tasks-of-a-type/scaling-by-rest-without-task", "rest.md#scaling-tasks"
)
@pytest.mark.proves(
    "rest.md#answers/422",
    "dijob.md#spec-tasks/minreplicas",
    "dijob.md#spec-tasks/maxreplicas",
)
@pytest.mark.parametrize(
    ("raw", "asked", "name", "replicas"),
    [
        # The collector task by its type, else the only task.
        (job(), ScalingRequest(2), "collector", 4),
        (scaled(task("learner", 1)), UP, "learner", 2),
        (scaled(task("none", 1, name="a"), task("collector", 1, name="b")), UP, "b", 2),
        # The task that is named, whose name and count may be defaults.
        (job(), ScalingRequest(-1, "collector"), "collector", 1),
        (scaled(UNNAMED, task()), ScalingRequest(1, "learner"), "learner", 2),
        # Up to each bound.
        (collectors(2, minReplicas=1, maxReplicas=4), ScalingRequest(2), "collector", 4),
        (collectors(3, minReplicas=2, maxReplicas=4), ScalingRequest(-1), "collector", 2),
        (collectors(1), ScalingRequest(DEFAULT_MAX_REPLICAS - 1), "collector", 32),
        (collectors(200), ScalingRequest(-1), "collector", 199),
        (collectors(1, maxReplicas=MAX_PODS), ScalingRequest(4095), "collector", 4096),
        (collectors(3, minReplicas=2), ScalingRequest(0, to=2), "collector", 2),
        ({key: value for key, value in job().items() if key != "status"}, UP, "collector", 3),
    ],
)
def test_the_task_that_is_meant_is_scaled(
    raw: Object, asked: ScalingRequest, name: str, replicas: int
) -> None:
    assert decide(raw, asked, None).result == ScalingResult(name, replicas)


NO_MAX = (
    "task collector has no maxReplicas and is scaled here to at most 32 replicas, has 2; "
    "set maxReplicas of the task to allow more"
)
MAY_REACH = "replicas of task collector the job may reach"
BOUNDED = collectors(2, minReplicas=2, maxReplicas=2)
LEARNERS = task("learner", maxReplicas=3440)
ROLES = [task("collector", name="rollout"), task("collector", name="tools")]
DELETED = job()
DELETED["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("raw", "asked", "bound"),
    [
        (job(), ScalingRequest(-2), "at least 1 replicas, has 2"),
        (job(), ScalingRequest(31), NO_MAX),
        (collectors(200), UP, "at most 32 replicas, has 200; set maxReplicas"),
        (scaled(task("learner", maxReplicas=4090), task("collector", 6)), UP,
         f"with 7 {MAY_REACH} 4097 pods"),
        (scaled(LEARNERS, task(), name="j" * 45), ScalingRequest(9),
         f"with 11 {MAY_REACH} 3451 pods, whose DNS names take"),
        (BOUNDED, ScalingRequest(-1), r"at least 2 replicas \(minReplicas\), has 2"),
        (BOUNDED, UP, r"at most 2 replicas \(maxReplicas\), has 2; raise maxReplicas"),
        (BOUNDED, ScalingRequest(0, to=1), "task collector must have at least"),
        (BOUNDED, ScalingRequest(0, to=3), "task collector must have at most"),
        (job(name="j" * 51), ScalingRequest(9), "pod names over 63 characters"),
        (job(), ScalingRequest(1, "actor"), "the tasks of this job are learner, collector"),
        (scaled(task("learner"), task("evaluator")), UP, "must be given, one of learner, eval"),
        (scaled(task("learner"), *ROLES), UP, "task must be given, one of rollout, tools$"),
        (job(tasks=[]), UP, "task must be given"),
    ],
)  # fmt: skip
def test_the_bound_that_refuses_a_change_is_named(
    raw: Object, asked: ScalingRequest, bound: str
) -> None:
    with pytest.raises(OutOfBounds, match=bound):
        decide(raw, asked, None)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (job(phase="Succeeded"), "finished"),
        (job(phase="Failed"), "finished"),
        (job(suspend=True), "suspended"),
        (DELETED, "being deleted"),
    ],
)
def test_a_job_that_does_not_run_is_not_scaled(raw: Object, why: str) -> None:
    with pytest.raises(NotNow, match=why):
        decide(raw, UP, None)


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ({"replicas": 3}, [ScalingRequest(3), ScalingRequest(-3), ScalingRequest(0, to=3)]),
        ({"replicas": 3, "task": "a", "x": 1},
         [ScalingRequest(3, "a"), ScalingRequest(-3, "a"), ScalingRequest(0, "a", to=3)]),
        *(({"replicas": count}, OutOfBounds) for count in (0, -1, MAX_PODS + 1, -(2**62))),
        ({}, Malformed),
    ],
)  # fmt: skip
def test_a_body_is_an_addition_a_removal_or_a_setting(
    body: Object, read: list[ScalingRequest] | type[Problem]
) -> None:
    if isinstance(read, list):
        assert [addition(body), removal(body), setting(body)] == read
        return
    rule = "between 1 and 4096, the most pods of a job" if body else "replicas: is missing"
    for reader in (addition, removal, setting):
        with pytest.raises(read, match=rule):
            reader(body)


@pytest.mark.parametrize(("to", "operations"), [(5, 2), (1, 2), (2, 0)])
def test_replicas_are_set_whatever_they_are(to: int, operations: int) -> None:
    found = decide(job(), ScalingRequest(0, "collector", to=to), None)
    assert isinstance(found, ScalingPatch)
    assert found.result == ScalingResult("collector", to)
    assert len(found.operations) == operations


@pytest.mark.proves("rest.md#operations-on-tasks/delete")
def test_setting_replicas_fills_and_leaves_gaps_as_adding_and_removing_do() -> None:
    raw = collectors(3, vacant=[1])
    for to, change in ((4, 1), (2, -1)):
        found = decide(raw, ScalingRequest(0, to=to), None)
        assert found == decide(raw, ScalingRequest(change), None)


def test_a_job_with_a_queue_is_scaled_within_what_was_admitted() -> None:
    body = collectors(3, maxReplicas=9)
    body["status"] = {"phase": "Running", "admitted": {"collector": 4}}
    assert isinstance(decide(body, UP, None), ScalingPatch)
    with pytest.raises(OutOfBounds, match="at most 4 replicas, which its queue has admitted"):
        decide(body, ScalingRequest(2), None)
    # Replicas of an elastic tier queue one by one.
    body["spec"]["tasks"][0] |= {"elastic": {}, "minReplicas": 1}
    assert isinstance(decide(body, ScalingRequest(2), None), ScalingPatch)


@pytest.mark.parametrize(
    ("group", "policy", "warns"),
    [
        ({"framework": "torch"}, {}, True),
        ({}, {}, True),
        ({}, {"rules": [{"action": "RestartInPlace"}]}, False),
        ({"framework": "jax"}, {"rules": [{"action": "RestartInPlace"}]}, True),
        ({"framework": "torch", "elastic": True}, {}, False),
        (None, {}, False),
        ({"elastic": "often"}, {}, False),
    ],
)
def test_the_answer_warns_where_scaling_replaces_a_group(
    group: Object | None, policy: Object, warns: bool
) -> None:
    fields: Object = {} if group is None else {"processGroup": group}
    raw = scaled(task("learner", 3, **fields), failurePolicy=policy)
    first = decide(raw, UP, None)
    assert isinstance(first, ScalingPatch)
    assert (first.result.warning is not None) is warns
    assert first.result.warning is None or "task learner has a fixed size" in first.result.warning
    assert decide(raw, ScalingRequest(0, to=3), None).result.warning is None


def test_a_retry_has_the_warning_of_the_first_answer() -> None:
    key = IdempotencyKey("k" * 22, "r" * 22)
    result = ScalingResult("learner", 4)
    told = recording(IdempotencyRecords(), key, result)
    raw = scaled(task("learner", 4, processGroup={"framework": "jax"}))
    raw["metadata"]["annotations"] = told
    again = decide(raw, UP, key)
    assert isinstance(again, Replay)
    assert again.result.warning is not None
