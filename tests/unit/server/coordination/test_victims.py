"""Replicas that are removed by name, and the gaps that are left and filled."""

from __future__ import annotations

from typing import Any

import pytest

from di_server.jobs.idempotency import ScalingResult
from di_server.jobs.requests import addition, removal
from di_server.jobs.scaling import ScalingPatch, ScalingRequest, decide
from di_server.problems import Malformed, OutOfBounds, Problem
from tests.unit.server.fakes import job, task

Object = dict[str, Any]


def asked(*names: str, task: str | None = None) -> ScalingRequest:
    return removal({"names": [*names], "task": task})


def patched(raw: Object, request: ScalingRequest) -> dict[str, Any]:
    """The paths that are written, but for the version, with their values; None for a removal."""
    found = decide(raw, request, None)
    assert isinstance(found, ScalingPatch)
    return {each["path"]: each.get("value") for each in found.operations[1:]}


def rollout(replicas: int, *vacant: int, **fields: Any) -> Object:
    given = {"vacant": [*vacant]} if vacant else {}
    return job(name="x", tasks=[task("learner", 1), task("collector", replicas, **given, **fields)])


@pytest.mark.proves("rest.md#operations-on-tasks/delete")
@pytest.mark.parametrize(
    ("raw", "request_", "replicas", "vacant"),
    [
        pytest.param(rollout(4), asked("x-collector-1"), 3, [1], id="a gap"),
        pytest.param(rollout(4), asked("x-collector-3"), 3, "as before", id="the last"),
        pytest.param(rollout(3, 1), asked("x-collector-2"), 2, [1, 2], id="another gap"),
        pytest.param(rollout(3, 1), asked("x-collector-3"), 2, "as before", id="the last beyond"),
        pytest.param(rollout(2, 1), asked("x-collector-2"), 1, None, id="what is above is free"),
        pytest.param(
            rollout(4), asked("x-collector-3", "x-collector-0"), 2, [0], id="several at once"
        ),
        pytest.param(rollout(3, 1), ScalingRequest(-1), 2, "as before", id="fewer beside a gap"),
        pytest.param(rollout(3, 1), ScalingRequest(-2), 1, None, id="fewer than the gap"),
        pytest.param(rollout(3, 1), ScalingRequest(1), 4, None, id="the gap is filled"),
        pytest.param(rollout(3, 2, 1), ScalingRequest(1), 4, [2], id="the lowest gap is filled"),
        pytest.param(rollout(3, 1), ScalingRequest(3), 6, None, id="all gaps and more"),
    ],
)
def test_replicas_and_vacancies_are_one_write(
    raw: Object, request_: ScalingRequest, replicas: int, vacant: list[int] | str | None
) -> None:
    written: dict[str, Any] = {"/spec/tasks/1/replicas": replicas}
    if vacant != "as before":
        written["/spec/tasks/1/vacant"] = vacant
    assert patched(raw, request_) == written


STANDBY = rollout(3, standby=1)
PROMOTED = rollout(3, standby=1)
PROMOTED["status"]["standIns"] = {"collector": {"1": "x-collector-standby-0"}}
OF_TWO = rollout(3, podsPerReplica=2)
TIERED = rollout(3, minReplicas=1, maxReplicas=4, elastic={})


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (PROMOTED, "x-collector-1"),
        (PROMOTED, "x-collector-standby-0"),
        *((OF_TWO, name) for name in ("x-collector-1", "x-collector-1-0", "x-collector-1-1")),
        (TIERED, "x-collector-1"),
    ],
)
def test_a_replica_is_named_by_itself_or_one_of_its_pods(raw: Object, name: str) -> None:
    assert patched(raw, asked(name)) == {"/spec/tasks/1/replicas": 2, "/spec/tasks/1/vacant": [1]}


def test_the_task_is_that_of_the_names() -> None:
    raw = job(name="x", tasks=[task("learner", 3), task("collector", 3)])
    assert patched(raw, asked("x-learner-0"))["/spec/tasks/0/vacant"] == [0]
    result = decide(raw, asked("x-learner-0", task="learner"), None).result
    assert result == ScalingResult("learner", 2)


CHOSEN = "replicas of task collector cannot be chosen: "
ONE_REPLICA = "are one replica, which is to be named once"


@pytest.mark.parametrize(
    ("raw", "names", "why"),
    [
        *(
            (raw, [name], f"this job has no replica or pod {name}")
            for raw, name in (
                (rollout(3), "y-collector-0"),
                (rollout(3), "x-collector-3"),
                (rollout(3, 1), "x-collector-1"),
                (rollout(3), "x-collector-01"),
                (OF_TWO, "x-collector-1-2"),
                (STANDBY, "x-collector-standby-0"),
            )
        ),
        (rollout(3), ["x-collector-0"] * 2, f"x-collector-0 and x-collector-0 {ONE_REPLICA}"),
        (
            OF_TWO,
            ["x-collector-1-0", "x-collector-1-1"],
            f"x-collector-1-0 and x-collector-1-1 {ONE_REPLICA}",
        ),
        (
            rollout(3),
            ["x-collector-0", "x-learner-0"],
            "names must be of one task, and are of learner, collector",
        ),
        (
            rollout(3, minReplicas=3),
            ["x-collector-0"],
            "task collector must have at least 3 replicas (minReplicas), has 3",
        ),
        (rollout(1), ["x-collector-0"], "task collector must have at least 1 replicas, has 1"),
        (
            job(name="x", preemptible=True, tasks=[task("collector", 3)]),
            ["x-collector-2"],
            f"{CHOSEN}the allocator chooses which replicas a preemptible job has",
        ),
        (
            rollout(3, processGroup={}),
            ["x-collector-2"],
            f"{CHOSEN}the ranks of a process group that is not elastic are its indexes, with no "
            "gap",
        ),
        (
            TIERED,
            ["x-collector-0"],
            f"{CHOSEN}the core of a task with an elastic tier has the indexes below 1, with no gap",
        ),
        (
            rollout(1025 + 1, *range(1024), maxReplicas=4096),
            ["x-collector-1030"],
            "task collector would leave 1025 indexes vacant and may leave 1024; remove those of "
            "the highest indexes",
        ),
    ],
)
def test_names_that_cannot_be_removed_are_refused(raw: Object, names: list[str], why: str) -> None:
    with pytest.raises(OutOfBounds) as refused:
        decide(raw, asked(*names), None)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("name", "task"), [("x-learner-0", "collector"), ("x-collector-0", "none")]
)
def test_a_name_of_another_task_is_refused(name: str, task: str) -> None:
    with pytest.raises(OutOfBounds, match=f"^task {task} has no replica or pod {name}$"):
        decide(rollout(3), asked(name, task=task), None)


@pytest.mark.parametrize(
    ("body", "problem", "why"),
    [
        ({}, Malformed, "replicas: is missing, a whole number"),
        ({"replicas": 1, "names": ["a"]}, Malformed, "replicas: is the number of names"),
        ({"names": "a"}, Malformed, "names: must be a list of names of replicas or pods"),
        ({"names": [1]}, Malformed, "names: must be a list of names of replicas or pods"),
        ({"names": [], "replicas": None}, Malformed, "replicas: must be a whole number"),
        ({"names": []}, OutOfBounds, "names must be between 1 and 4096"),
        ({"names": ["a"] * 4097}, OutOfBounds, "names must be between 1 and 4096"),
    ],
)
def test_a_body_without_names_or_number_is_refused(
    body: Object, problem: type[Problem], why: str
) -> None:
    with pytest.raises(problem, match=why):
        removal(body)


def test_names_are_ignored_where_none_are_removed() -> None:
    assert addition({"replicas": 1, "names": ["a"]}) == ScalingRequest(1)
    assert removal({"replicas": 1, "names": None}) == ScalingRequest(-1)
