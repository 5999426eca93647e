"""A coordinator that is refused ends its training, so it is kept waiting while there is hope."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from di_api.kube.errors import Conflict, Throttled, Unavailable
from di_server.deadline import COORDINATION_SECONDS, Deadline
from di_server.retry_policy import RetryPolicy
from tests.unit.server.fakes import (
    Clock,
    Harness,
    Object,
    coordinated,
    make_harness,
    replica,
    watch,
)

PATH = "/v1alpha1/replicas"
AWAY = Unavailable(kind="DIJob", reason="Timeout")
CHANGES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "create": ("POST", PATH, {"collectors": {"replicas": 2}}, 4),
    "delete": ("DELETE", PATH, {"collectors": {"replicas": 1}}, 1),
    "replace": ("POST", f"{PATH}/failed", {"collectors": ["c1"], "learners": []}, 2),
}
"""Method, path, body, and how many replicas there are afterwards of two."""


@pytest.fixture(params=[False, True], ids=["from etcd", "from the cache"])
def harness(request: pytest.FixtureRequest) -> Harness:
    """An open server and one job with two collectors."""
    harness = make_harness()
    harness.add(coordinated(replica("c1"), replica("c2")))
    if request.param:
        watch(harness)
    return harness


def _change(harness: Harness, kind: str) -> tuple[Any, list[str], int]:
    """What the answer tells, the names of the replicas now, and how many there should be."""
    method, path, body, count = CHANGES[kind]
    whole = {"namespace": "rl", "coordinator": "cartpole-coordinator", **body}
    answer = harness.client.open(path, method=method, data=json.dumps(whole))
    assert answer.status_code == 200, answer.text
    names = [each["name"] for each in harness.job()["spec"]["coordinated"]["replicas"]]
    return json.loads(answer.data)["data"]["collectors"], names, count


def _takes_effect_once(harness: Harness, kind: str) -> None:
    told, names, count = _change(harness, kind)
    assert len(names) == count
    pods = {each.partition(".")[0] for each in told}
    assert pods == ({"c2"} if kind == "delete" else set(names) - {"c1", "c2"})


@pytest.mark.parametrize("kind", CHANGES)
def test_a_write_that_never_arrived_is_sent_again(harness: Harness, kind: str) -> None:
    answers = [AWAY, AWAY]

    def before_patch() -> None:
        if answers:
            raise answers.pop()

    harness.kube.before_patch = before_patch
    _takes_effect_once(harness, kind)
    assert harness.kube.calls["patch", "dijobs"] == 3


@pytest.mark.parametrize("kind", CHANGES)
def test_a_write_whose_answer_was_lost_is_not_made_twice(
    harness: Harness, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = harness.kube.patch

    def lose(*args: Any, **keywords: Any) -> Object:
        patch(*args, **keywords)
        raise AWAY

    monkeypatch.setattr(harness.kube, "patch", lose)
    _takes_effect_once(harness, kind)
    assert harness.kube.calls["patch", "dijobs"] == 1


@pytest.mark.parametrize("kind", CHANGES)
def test_a_write_that_arrives_late_is_not_made_twice(
    harness: Harness, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = harness.kube.patch
    late: list[tuple[Any, Any]] = []

    def delay(*args: Any, **keywords: Any) -> Object:
        if not late:
            late.append((args, keywords))
            raise AWAY
        if len(late) == 1:
            # Overtakes the one that was sent in its place.
            late.append((args, keywords))
            patch(*late[0][0], **late[0][1])
        return patch(*args, **keywords)

    monkeypatch.setattr(harness.kube, "patch", delay)
    _takes_effect_once(harness, kind)
    assert harness.kube.calls["patch", "dijobs"] == 2


def test_a_write_that_met_a_conflict_is_not_taken_for_made(harness: Harness) -> None:
    """Somebody else takes away the very replica, and this request is about one more."""
    answers = [Conflict(kind="DIJob", code=409)]

    def before_patch() -> None:
        if answers:
            error = answers.pop()
            harness.add(coordinated(replica("c1")))
            raise error

    harness.kube.before_patch = before_patch
    told, names, _ = _change(harness, "delete")
    assert (told, names) == (["c1.rl:22270"], [])


@pytest.mark.parametrize("query", [{"coordinator": "cartpole-coordinator"}, {}])
def test_a_list_waits_for_the_api_server(query: dict[str, str]) -> None:
    harness = make_harness()
    harness.add(coordinated(replica("c1")))
    harness.kube.failures = [AWAY] * 5
    began = harness.clock.now
    answer = harness.client.get(PATH, query_string={"namespace": "rl", **query})
    assert answer.status_code == 200
    assert "c1.rl:22270" in answer.text
    assert 1 < harness.clock.now - began < COORDINATION_SECONDS


def test_a_throttled_one_waits_as_told(harness: Harness) -> None:
    harness.kube.failures = [Throttled(kind="DIJob", code=429, retry_after=7)]
    began = harness.clock.now
    _change(harness, "create")
    assert harness.clock.now - began == 7


def test_retries_have_an_end(harness: Harness) -> None:
    harness.kube.failure = AWAY
    began = harness.clock.now
    body = {"namespace": "rl", "coordinator": "cartpole-coordinator", "collectors": {"replicas": 1}}
    answer = harness.client.post(PATH, data=json.dumps(body))
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert COORDINATION_SECONDS - 3 < harness.clock.now - began <= COORDINATION_SECONDS


def test_not_all_threads_wait() -> None:
    """Who asks while another has the only place is told at once; later the place is free."""
    clock = Clock()
    refused: list[bool] = []

    def fail_once() -> Callable[[], str]:
        errors = [AWAY]

        def attempt() -> str:
            if errors:
                raise errors.pop()
            return "there"

        return attempt

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if not refused:
            try:
                refused.append(False)
                ask()
            except Unavailable:
                refused[-1] = True

    policy = RetryPolicy(max_waiting=1, rng=Random(1), sleep=sleep)

    def ask() -> str:
        return policy.run(fail_once(), Deadline.after(clock))

    assert ask() == "there"
    assert refused == [True]
    assert ask() == "there"
