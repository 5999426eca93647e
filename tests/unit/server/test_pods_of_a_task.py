"""The pods of one task, and where they listen."""

from __future__ import annotations

import pytest

from tests.unit.server.fakes import Harness, coordinated, job, pod, watch

PATH = "/v2alpha1/rl.cartpole/pods"


def fill(harness: Harness) -> None:
    harness.add_pods(
        pod("cartpole-learner-0", 0, "10.0.0.1", task="learner"),
        pod("cartpole-collector-1", 2, "10.0.0.3"),
        pod("cartpole-collector-0", 1, "fd00::2"),
        pod("cartpole-collector-2", 3),
        pod("cartpole-collector-3", 4, "10.0.0.5", phase="Failed"),
        pod("earlier", 5, "10.0.0.6", owner=job(uid="earlier")),
    )


@pytest.mark.parametrize("cached", [True, False])
def test_those_that_listen_are_told_by_rank(harness: Harness, cached: bool) -> None:
    fill(harness)
    if cached:
        watch(harness)
    assert harness.client.get(f"{PATH}/collector").get_json()["data"] == [
        {"pod": "cartpole-collector-0", "rank": 1, "address": "[fd00::2]:22270"},
        {"pod": "cartpole-collector-1", "rank": 2, "address": "10.0.0.3:22270"},
    ]


def test_a_task_that_is_not_there_is_refused(harness: Harness) -> None:
    answer = harness.client.get(f"{PATH}/actor")
    assert answer.status_code == 422
    assert "learner, collector" in answer.get_json()["message"]


def test_a_job_with_a_coordinator_has_no_tasks(harness: Harness) -> None:
    harness.add(coordinated(name="led", uid="uid-3"))
    answer = harness.client.get("/v2alpha1/rl.led/pods/collector")
    assert (answer.status_code, "coordinator" in answer.get_json()["message"]) == (422, True)


def test_there_is_nothing_below_a_task(harness: Harness) -> None:
    assert harness.client.get(f"{PATH}/collector/0").status_code in (400, 404)
    assert harness.client.get("/v2alpha1/rl.absent/pods/collector").status_code == 404
