"""What a scaling request writes, and when it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import MAX_PODS
from di_server.config import DEFAULT_MAX_REPLICAS
from di_server.jobs.idempotency import ScalingResult
from di_server.jobs.requests import addition, removal
from di_server.jobs.scaling import ScalingPatch, ScalingRequest, decide
from di_server.problems import NotNow, OutOfBounds, Problem
from tests.unit.server.fakes import job, task


def test_only_the_count_changes_and_only_under_the_version_read() -> None:
    write = decide(job(), ScalingRequest(1), None)
    assert write == ScalingPatch(
        [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "add", "path": "/spec/tasks/1/replicas", "value": 3},
        ],
        ScalingResult("collector", 3),
    )


@pytest.mark.parametrize(
    ("tasks", "asked", "result"),
    [
        pytest.param(
            [task("learner", 1), task("collector", 2)],
            ScalingRequest(2),
            ScalingResult("collector", 4),
            id="the collector task is the default",
        ),
        pytest.param(
            [task("learner", 1)],
            ScalingRequest(1),
            ScalingResult("learner", 2),
            id="else the only task",
        ),
        pytest.param(
            [task("learner", 1), task("collector", 2)],
            ScalingRequest(-1, "collector"),
            ScalingResult("collector", 1),
            id="a named task",
        ),
        pytest.param(
            [{"type": "learner", "template": {}}, task("collector", 2)],
            ScalingRequest(1, "learner"),
            ScalingResult("learner", 2),
            id="a task without name and count has the defaults",
        ),
        pytest.param(
            [task("collector", 2, minReplicas=1, maxReplicas=4)],
            ScalingRequest(2),
            ScalingResult("collector", 4),
            id="up to maxReplicas",
        ),
        pytest.param(
            [task("collector", 3, minReplicas=2, maxReplicas=4)],
            ScalingRequest(-1),
            ScalingResult("collector", 2),
            id="down to minReplicas",
        ),
        pytest.param(
            [task("collector", 1)],
            ScalingRequest(DEFAULT_MAX_REPLICAS - 1),
            ScalingResult("collector", DEFAULT_MAX_REPLICAS),
            id="without maxReplicas up to the default",
        ),
        pytest.param(
            [task("collector", 200)],
            ScalingRequest(-1),
            ScalingResult("collector", 199),
            id="down from more than the default",
        ),
        pytest.param(
            [task("collector", 1, maxReplicas=MAX_PODS)],
            ScalingRequest(MAX_PODS - 1),
            ScalingResult("collector", MAX_PODS),
            id="up to the most pods of a job",
        ),
        pytest.param(
            [task("none", 1, name="actor"), task("collector", 1, name="gather")],
            ScalingRequest(1),
            ScalingResult("gather", 2),
            id="the collector task by its type, whatever its name",
        ),
    ],
)
def test_the_task_meant_gets_the_count(
    tasks: list[dict[str, Any]], asked: ScalingRequest, result: ScalingResult
) -> None:
    assert decide(job(tasks=tasks), asked, None).result == result


@pytest.mark.parametrize(
    ("raw", "asked", "refusal", "bound"),
    [
        (job(), ScalingRequest(-2), OutOfBounds, "at least 1 replicas, has 2"),
        (
            job(),
            ScalingRequest(31),
            OutOfBounds,
            "task collector has no maxReplicas and is scaled here to at most 32 replicas, has 2; "
            "set maxReplicas of the task to allow more",
        ),
        (
            job(tasks=[task(replicas=200)]),
            ScalingRequest(1),
            OutOfBounds,
            "at most 32 replicas, has 200; set maxReplicas",
        ),
        (
            job(tasks=[task("learner", maxReplicas=4090), task("collector", 6)]),
            ScalingRequest(1),
            OutOfBounds,
            "with 7 replicas of task collector the job may reach 4097 pods",
        ),
        (
            job(name="j" * 45, tasks=[task("learner", maxReplicas=3440), task("collector", 2)]),
            ScalingRequest(9),
            OutOfBounds,
            "with 11 replicas of task collector the job may reach 3451 pods, whose DNS names take",
        ),
        (
            job(tasks=[task(replicas=2, minReplicas=2)]),
            ScalingRequest(-1),
            OutOfBounds,
            r"at least 2 replicas \(minReplicas\), has 2",
        ),
        (
            job(tasks=[task(replicas=2, maxReplicas=2)]),
            ScalingRequest(1),
            OutOfBounds,
            r"at most 2 replicas \(maxReplicas\), has 2; raise maxReplicas",
        ),
        (job(name="j" * 51), ScalingRequest(9), OutOfBounds, "pod names over 63 characters"),
        (
            job(),
            ScalingRequest(1, "actor"),
            OutOfBounds,
            "the tasks of this job are learner, collector",
        ),
        (
            job(tasks=[task("learner"), task("evaluator")]),
            ScalingRequest(1),
            OutOfBounds,
            "task must be given, one of learner, evaluator",
        ),
        (
            job(
                tasks=[
                    task("learner"),
                    task("collector", name="rollout"),
                    task("collector", name="tools"),
                ]
            ),
            ScalingRequest(1),
            OutOfBounds,
            "task must be given, one of rollout, tools$",
        ),
        (job(tasks=[]), ScalingRequest(1), OutOfBounds, "task must be given"),
        (job(phase="Succeeded"), ScalingRequest(1), NotNow, "finished"),
        (job(phase="Failed"), ScalingRequest(1), NotNow, "finished"),
        (job(suspend=True), ScalingRequest(1), NotNow, "suspended"),
    ],
)
def test_a_bound_in_the_way_is_named(
    raw: dict[str, Any], asked: ScalingRequest, refusal: type[Problem], bound: str
) -> None:
    with pytest.raises(refusal, match=bound):
        decide(raw, asked, None)


def test_a_job_being_deleted_is_not_scaled() -> None:
    raw = job()
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(NotNow, match="being deleted"):
        decide(raw, ScalingRequest(1), None)


def test_a_job_without_status_is_scaled() -> None:
    raw = job(phase=None)
    del raw["status"]
    assert decide(raw, ScalingRequest(1), None).result == ScalingResult("collector", 3)


@pytest.mark.parametrize("count", [0, -1, MAX_PODS + 1, -(2**62)])
def test_a_count_that_is_none_is_refused(count: int) -> None:
    with pytest.raises(OutOfBounds, match="between 1 and 4096, the most pods of a job"):
        addition({"replicas": count})


def test_removing_is_a_negative_change() -> None:
    assert removal({"replicas": 3, "task": "learner"}) == ScalingRequest(-3, "learner")


def test_a_job_with_a_queue_is_scaled_within_what_was_admitted() -> None:
    tasks = [task("collector", 3, maxReplicas=9)]
    body = job(tasks=tasks) | {"status": {"phase": "Running", "admitted": {"collector": 4}}}
    assert isinstance(decide(body, ScalingRequest(1), None), ScalingPatch)
    with pytest.raises(OutOfBounds, match="at most 4 replicas, which its queue has admitted"):
        decide(body, ScalingRequest(2), None)
    tasks[0]["elastic"] = {}  # its replicas queue one by one
    tasks[0]["minReplicas"] = 1
    assert isinstance(decide(body, ScalingRequest(2), None), ScalingPatch)
