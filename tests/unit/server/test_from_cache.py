"""Jobs with tasks are scaled and listed from the cache, which shows in nothing but the time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.kube.errors import ApiError, Forbidden, Invalid, Unavailable
from tests.unit.server.fakes import Harness, job, pod, task, watch

PATH = "/v2alpha1/rl.cartpole/replicas"


@pytest.fixture
def watched(harness: Harness) -> Harness:
    """The usual harness, all of it in the server's caches."""
    harness.add_pods(pod("a", 1, "10.0.0.1"))
    watch(harness)
    return harness


def _post(harness: Harness, key: str | None = None) -> tuple[int, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = harness.client.post(PATH, data='{"replicas": 1}', headers=headers)
    return answer.status_code, json.loads(answer.data)["data"]


def test_a_list_costs_no_request(watched: Harness) -> None:
    watched.kube.failure = Unavailable(kind="DIJob")
    answer = watched.client.get(PATH)
    assert json.loads(answer.data)["data"] == ["", "10.0.0.1:22270", ""]


def test_a_change_costs_one_request_and_is_listed_at_once(watched: Harness) -> None:
    assert _post(watched) == (200, {"task": "collector", "replicas": 3})
    assert len(json.loads(watched.client.get(PATH).data)["data"]) == 4
    assert _post(watched) == (200, {"task": "collector", "replicas": 4})
    assert dict(watched.kube.calls) == {("patch", "dijobs"): 2}


def test_what_another_server_wrote_a_moment_ago_counts(watched: Harness) -> None:
    watched.add(job(tasks=[task("learner", 1), task("collector", 9)]))
    assert _post(watched) == (200, {"task": "collector", "replicas": 10})


def test_a_key_that_another_server_used_a_moment_ago_is_known(watched: Harness) -> None:
    first = _post(watched, "k")
    # As it was before, for a server that has not seen the change.
    watched.caches.jobs.clear()
    watched.caches.jobs.on_event("ADDED", job())
    watched.caches.jobs.mark_synced()
    assert _post(watched, "k") == first == (200, {"task": "collector", "replicas": 3})
    assert watched.replicas() == 3


def test_annotations_of_others_stay(watched: Harness) -> None:
    annotated = job()
    annotated["metadata"]["annotations"] = {"note": "keep me"}
    watched.add(annotated)
    watch(watched)
    assert _post(watched, "k")[0] == 200
    assert watched.job()["metadata"]["annotations"]["note"] == "keep me"


def test_nobody_is_refused_from_the_cache(watched: Harness) -> None:
    watched.add(job(tasks=[task("learner", 1), task("collector", 2, maxReplicas=2)]))
    watch(watched)
    watched.add(job(tasks=[task("learner", 1), task("collector", 2, maxReplicas=9)]))
    assert _post(watched) == (200, {"task": "collector", "replicas": 3})
    watched.add(job(phase="Failed"))
    assert _post(watched)[0] == 409


def test_a_job_made_anew_under_its_name_is_scaled(watched: Harness) -> None:
    watched.add(job(phase="Succeeded"))
    watch(watched)
    watched.add(job(uid="uid-2"))
    assert _post(watched) == (200, {"task": "collector", "replicas": 3})


def test_what_admission_says_of_a_change_to_an_old_job_does_not_count(watched: Harness) -> None:
    verdicts: list[ApiError] = [Invalid(kind="DIJob", code=422), Forbidden(kind="DIJob", code=403)]

    def admission() -> None:
        if watched.kube.calls["get", "dijobs"] == 0:
            raise verdicts.pop()

    watched.kube.before_patch = admission
    for _ in range(2):
        watched.kube.calls.clear()
        assert _post(watched)[0] == 200
    assert verdicts == []
    assert watched.replicas() == 4
