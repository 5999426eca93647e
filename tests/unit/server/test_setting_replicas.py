"""Setting a count: to what it is to be, whatever it is."""

from __future__ import annotations

import pytest

from di_server.jobs.idempotency import ScalingResult
from di_server.jobs.requests import addition, setting
from di_server.jobs.scaling import ScalingPatch, ScalingRequest, decide
from di_server.problems import Malformed, OutOfBounds
from tests.unit.server.fakes import Harness, job, task, watch

PATH = "/v2alpha1/rl.cartpole/replicas"


@pytest.mark.parametrize(("to", "operations"), [(5, 2), (1, 2), (2, 0)])
def test_a_count_is_set_from_wherever_it_is(to: int, operations: int) -> None:
    found = decide(job(), ScalingRequest(0, "collector", to=to), None)
    assert isinstance(found, ScalingPatch)
    assert found.result == ScalingResult("collector", to)
    assert len(found.operations) == operations


def test_gaps_are_filled_and_left_as_by_adding_and_removing() -> None:
    tasks = [task("collector", 3, vacant=[1])]
    grown = decide(job(tasks=tasks), ScalingRequest(0, to=4), None)
    assert grown == decide(job(tasks=tasks), ScalingRequest(1), None)
    shrunk = decide(job(tasks=tasks), ScalingRequest(0, to=2), None)
    assert shrunk == decide(job(tasks=tasks), ScalingRequest(-1), None)


@pytest.mark.parametrize("to", [1, 5])
def test_the_bounds_of_the_task_hold(to: int) -> None:
    bounded = job(tasks=[task("collector", 3, minReplicas=2, maxReplicas=4)])
    with pytest.raises(OutOfBounds, match="task collector must have at"):
        decide(bounded, ScalingRequest(0, to=to), None)


def test_what_a_body_asks_for() -> None:
    assert setting({"replicas": 3, "task": "a", "x": 1}) == ScalingRequest(0, "a", to=3)
    assert addition({"replicas": 3}) == ScalingRequest(3)
    with pytest.raises(OutOfBounds):
        setting({"replicas": 0})
    with pytest.raises(Malformed):
        setting({})


def test_over_rest_it_is_repeated_at_will(harness: Harness) -> None:
    for _ in range(2):
        answer = harness.client.put(PATH, json={"task": "collector", "replicas": 6})
        assert answer.get_json()["data"] == {"task": "collector", "replicas": 6}
    assert harness.replicas() == 6
    assert harness.kube.calls["patch", "dijobs"] == 1


def test_under_a_key_it_takes_effect_once(harness: Harness) -> None:
    def put() -> object:
        body = {"task": "collector", "replicas": 6}
        return harness.client.put(PATH, json=body, headers={"Idempotency-Key": "one"}).get_json()

    first = put()
    harness.client.delete(PATH, json={"replicas": 1})
    assert put() == first
    assert harness.replicas() == 5


def test_that_nothing_is_to_change_is_not_said_from_the_cache(harness: Harness) -> None:
    watch(harness)
    harness.job()["spec"]["tasks"][1]["replicas"] = 4
    harness.client.put(PATH, json={"task": "collector", "replicas": 2})
    assert harness.replicas() == 2
