"""The replicas of tasks over REST: set, and listed by task."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.server.fakes import Harness, coordinated, job, task, watch

PATH = "/v2alpha1/rl.cartpole/replicas"
TASKS = "/v2alpha1/rl.cartpole/tasks"


def put(harness: Harness, replicas: int, **headers: str) -> tuple[int, Any]:
    body = {"task": "collector", "replicas": replicas}
    return harness.ask(PATH, body, method="PUT", headers=headers)


@pytest.mark.proves("rest.md#operations-on-tasks/put-id-replicas")
def test_setting_replicas_is_idempotent(harness: Harness) -> None:
    for _ in range(2):
        assert put(harness, 6) == (200, {"task": "collector", "replicas": 6})
    assert harness.replicas() == 6
    assert harness.kube.calls["patch", "dijobs"] == 1
    assert {"task": "collector", "replicas": 6} in harness.ask(TASKS)[1]


def test_under_a_key_replicas_are_set_once(harness: Harness) -> None:
    key = {"Idempotency-Key": "one"}
    first = put(harness, 6, **key)
    harness.ask(PATH, {"replicas": 1}, method="DELETE")
    assert put(harness, 6, **key) == first
    assert harness.replicas() == 5


def test_an_unchanged_value_is_checked_at_the_api_server(harness: Harness) -> None:
    watch(harness)
    harness.job()["spec"]["tasks"][1]["replicas"] = 4
    put(harness, 2)
    assert harness.replicas() == 2


@pytest.mark.proves("rest.md#operations-on-tasks/get-id-tasks")
def test_each_task_is_listed_with_its_replicas(harness: Harness) -> None:
    unnamed = {"type": "learner", "template": {}}
    harness.add(job(tasks=[task("collector", 3, vacant=[1]), unnamed]))
    assert harness.ask(TASKS)[1] == [
        {"task": "collector", "replicas": 3},
        {"task": "learner", "replicas": 1},
    ]


def test_a_job_with_a_coordinator_has_no_tasks(harness: Harness) -> None:
    harness.add(coordinated())
    status, message = harness.ask(TASKS)
    assert (status, "has a coordinator" in message) == (422, True)
