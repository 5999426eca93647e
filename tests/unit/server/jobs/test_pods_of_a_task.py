"""The pods of one task, and where they listen."""

from __future__ import annotations

import pytest
from werkzeug.test import TestResponse

from di_server.storage.transforms import transform_job, transform_pod
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


@pytest.mark.proves("rest.md#operations-on-tasks/get-id-pods-task-wait")
@pytest.mark.parametrize("cached", [True, False])
def test_pods_that_listen_are_listed_by_rank(harness: Harness, cached: bool) -> None:
    fill(harness)
    if cached:
        watch(harness)
    assert harness.client.get(f"{PATH}/collector").get_json()["data"] == [
        {"pod": "cartpole-collector-0", "rank": 1, "address": "[fd00::2]:22270"},
        {"pod": "cartpole-collector-1", "rank": 2, "address": "10.0.0.3:22270"},
    ]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("rl.cartpole/pods/actor", 422, "learner, collector"),
        ("rl.led/pods/collector", 422, "coordinator"),
        ("rl.absent/pods/collector", 404, ""),
        ("rl.cartpole/pods/collector/0", 404, ""),
    ],
)
def test_another_path_is_refused(harness: Harness, path: str, status: int, words: str) -> None:
    harness.add(coordinated(name="led", uid="uid-3"))
    found, message = harness.ask(f"/v2alpha1/{path}")
    assert (found, words in message) == (status, True)


@pytest.fixture
def watched(harness: Harness) -> Harness:
    fill(harness)
    watch(harness)
    return harness


def tag_of(harness: Harness) -> str:
    return str(harness.client.get(f"{PATH}/collector").headers["ETag"])


def ask(harness: Harness, tag: str, query: str = "wait=20") -> TestResponse:
    return harness.client.get(f"{PATH}/collector?{query}", headers={"If-None-Match": tag})


def test_an_unchanged_list_is_answered_with_304(watched: Harness) -> None:
    answer = ask(watched, tag_of(watched), "")
    assert (answer.status_code, answer.data) == (304, b"")
    assert answer.headers["ETag"] == tag_of(watched)


def test_another_list_is_answered_at_once(watched: Harness) -> None:
    before = watched.clock.now
    answer = ask(watched, '"of-before"')
    assert (answer.status_code, len(answer.get_json()["data"])) == (200, 2)
    assert watched.clock.now == before


@pytest.mark.proves("rest.md#operations-on-tasks/get-id-pods-task-wait")
def test_a_request_waits_for_another_list(watched: Harness) -> None:
    began = watched.clock.now

    def start() -> None:
        if watched.clock.now - began == 3:
            started = pod("cartpole-collector-4", 6, "10.0.0.7")
            watched.caches.pods.on_event("MODIFIED", transform_pod(started))

    watched.clock.after_sleep = start
    answer = ask(watched, tag_of(watched))
    assert [each["rank"] for each in answer.get_json()["data"]] == [1, 2, 6]
    assert watched.clock.now - began == 3
    assert not watched.kube.calls


def test_a_wait_ends_after_its_seconds(watched: Harness) -> None:
    before = watched.clock.now
    assert ask(watched, tag_of(watched), "wait=7").status_code == 304
    assert watched.clock.now - before == 7


def test_a_job_that_is_deleted_late_in_a_wait_is_missing(watched: Harness) -> None:
    began = watched.clock.now

    def delete() -> None:
        if watched.clock.now - began == 15:
            gone = watched.kube.objects.pop(("dijobs", "rl", "cartpole"))
            watched.caches.jobs.on_event("DELETED", transform_job(gone))

    watched.clock.after_sleep = delete
    assert ask(watched, tag_of(watched)).status_code == 404


def test_without_a_cache_no_request_waits(harness: Harness) -> None:
    fill(harness)
    before = harness.clock.now
    assert ask(harness, tag_of(harness)).status_code == 304
    assert harness.clock.now == before


@pytest.mark.parametrize(
    ("query", "status"), [("wait=21", 422), ("wait=x", 400), ("wait=1&wait=1", 400)]
)
def test_a_bad_wait_is_refused(watched: Harness, query: str, status: int) -> None:
    assert ask(watched, tag_of(watched), query).status_code == status
