"""How many replicas each task is to have."""

from __future__ import annotations

from tests.unit.server.fakes import Harness, coordinated, job, task

PATH = "/v2alpha1/rl.cartpole/tasks"


def test_each_task_has_its_number(harness: Harness) -> None:
    unnamed = {"type": "learner", "template": {}}
    harness.add(job(tasks=[task("collector", 3, vacant=[1]), unnamed]))
    answer = harness.client.get(PATH)
    assert answer.get_json()["data"] == [
        {"task": "collector", "replicas": 3},
        {"task": "learner", "replicas": 1},
    ]


def test_what_was_scaled_a_moment_ago_is_told(harness: Harness) -> None:
    harness.client.put(PATH.replace("tasks", "replicas"), json={"task": "collector", "replicas": 6})
    assert {"task": "collector", "replicas": 6} in harness.client.get(PATH).get_json()["data"]


def test_a_job_with_a_coordinator_has_none(harness: Harness) -> None:
    harness.add(coordinated())
    answer = harness.client.get(PATH)
    assert answer.status_code == 422
    assert "has a coordinator" in answer.get_json()["message"]
