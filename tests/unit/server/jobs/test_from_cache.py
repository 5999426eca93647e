"""Jobs with tasks are scaled and listed from the cache, with the same answers."""

from __future__ import annotations

from typing import Any

import pytest

from di_kube.errors import ApiError, Forbidden, Invalid, Unavailable
from tests.unit.server.fakes import Harness, job, pod, task, watch

PATH = "/v2alpha1/rl.cartpole/replicas"


@pytest.fixture
def watched(harness: Harness) -> Harness:
    """The usual harness, all of it in the server's caches."""
    harness.add_pods(pod("a", 1, "10.0.0.1"))
    watch(harness)
    return harness


def _add(harness: Harness, **headers: str) -> int:
    """The status, or the replicas afterwards."""
    status, data = harness.ask(PATH, {"replicas": 1}, headers=headers)
    return data["replicas"] if status == 200 else status


def _collectors(replicas: int, **more: Any) -> Any:
    return job(tasks=[task("learner", 1), task("collector", replicas, **more)])


@pytest.mark.proves("rest.md#from-the-cache")
def test_a_list_costs_no_request(watched: Harness) -> None:
    watched.kube.failure = Unavailable(kind="DIJob")
    assert watched.ask(PATH) == (200, ["", "10.0.0.1:22270", ""])


def test_a_change_costs_one_request_and_is_listed_at_once(watched: Harness) -> None:
    assert _add(watched) == 3
    assert len(watched.ask(PATH)[1]) == 4
    assert _add(watched) == 4
    assert dict(watched.kube.calls) == {("patch", "dijobs"): 2}


@pytest.mark.proves("rest.md#from-the-cache")
def test_changes_by_another_server_count(watched: Harness) -> None:
    watched.add(_collectors(9))
    assert _add(watched) == 10


def test_a_key_that_another_server_used_is_known(watched: Harness) -> None:
    key = {"Idempotency-Key": "k"}
    assert _add(watched, **key) == 3
    # As it was before, for a server that has not seen the change.
    watched.caches.jobs.clear()
    watched.caches.jobs.on_event("ADDED", job())
    watched.caches.jobs.mark_synced()
    assert _add(watched, **key) == watched.replicas() == 3


def test_annotations_of_others_stay(watched: Harness) -> None:
    annotated = job()
    annotated["metadata"]["annotations"] = {"note": "keep me"}
    watched.add(annotated)
    watch(watched)
    assert _add(watched, **{"Idempotency-Key": "k"}) == 3
    assert watched.job()["metadata"]["annotations"]["note"] == "keep me"


@pytest.mark.proves("rest.md#from-the-cache")
def test_a_refusal_is_checked_at_the_api_server(watched: Harness) -> None:
    watched.add(_collectors(2, maxReplicas=2))
    watch(watched)
    watched.add(_collectors(2, maxReplicas=9))
    assert _add(watched) == 3
    watched.add(job(phase="Failed"))
    assert _add(watched) == 409
    watch(watched)
    # Another job under the name.
    watched.add(job(uid="uid-2"))
    assert _add(watched) == 3


def test_a_refusal_by_admission_is_retried_on_the_newest_version(watched: Harness) -> None:
    refusals: list[ApiError] = [Invalid(kind="DIJob", code=422), Forbidden(kind="DIJob", code=403)]

    def admission() -> None:
        if watched.kube.calls["get", "dijobs"] == 0:
            raise refusals.pop()

    watched.kube.before_patch = admission
    for replicas in (3, 4):
        watched.kube.calls.clear()
        assert _add(watched) == replicas
    assert refusals == []
