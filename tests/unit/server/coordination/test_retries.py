"""Requests of coordinators are retried: a coordinator that is refused ends its training."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from di_kube.errors import Conflict, Throttled, Unavailable, Unwritten
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
REQUESTER = {"namespace": "rl", "coordinator": "cartpole-coordinator"}
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
    """The answer, the names of the replicas now, and how many there should be."""
    method, path, body, count = CHANGES[kind]
    status, data = harness.ask(path, {**REQUESTER, **body}, method=method)
    assert status == 200, data
    names = [each["name"] for each in harness.job()["spec"]["coordinated"]["replicas"]]
    return data["collectors"], names, count


def _takes_effect_once(harness: Harness, kind: str, *, patches: int) -> None:
    answered, names, count = _change(harness, kind)
    assert len(names) == count
    pods = {each.partition(".")[0] for each in answered}
    assert pods == ({"c2"} if kind == "delete" else set(names) - {"c1", "c2"})
    assert harness.kube.calls["patch", "dijobs"] == patches


@pytest.mark.parametrize("kind", CHANGES)
class TestTakesEffectOnce:
    def test_a_write_that_never_arrived(self, harness: Harness, kind: str) -> None:
        answers = [AWAY, AWAY]

        def before_patch() -> None:
            if answers:
                raise answers.pop()

        harness.kube.before_patch = before_patch
        _takes_effect_once(harness, kind, patches=3)

    def test_a_write_whose_answer_was_lost(
        self, harness: Harness, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patch = harness.kube.patch

        def lose(*args: Any, **keywords: Any) -> Object:
            patch(*args, **keywords)
            raise AWAY

        monkeypatch.setattr(harness.kube, "patch", lose)
        _takes_effect_once(harness, kind, patches=1)

    def test_a_write_that_arrives_after_its_repetition(
        self, harness: Harness, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patch = harness.kube.patch
        late: list[tuple[Any, Any]] = []

        def delay(*args: Any, **keywords: Any) -> Object:
            late.append((args, keywords))
            if len(late) == 1:
                raise AWAY
            if len(late) == 2:
                patch(*late[0][0], **late[0][1])
            return patch(*args, **keywords)

        monkeypatch.setattr(harness.kube, "patch", delay)
        _takes_effect_once(harness, kind, patches=2)


def test_a_write_after_a_conflict_is_not_taken_for_done(harness: Harness) -> None:
    """Another client deletes the same replica, so this request deletes one more."""
    answers = [Conflict(kind="DIJob", code=409)]

    def before_patch() -> None:
        if answers:
            error = answers.pop()
            harness.add(coordinated(replica("c1")))
            raise error

    harness.kube.before_patch = before_patch
    answered, names, _ = _change(harness, "delete")
    assert (answered, names) == (["c1.rl:22270"], [])


@pytest.mark.parametrize("query", [{"coordinator": "cartpole-coordinator"}, {}])
def test_a_list_is_retried_until_the_api_server_answers(query: dict[str, str]) -> None:
    harness = make_harness()
    harness.add(coordinated(replica("c1")))
    harness.kube.failures = [AWAY] * 5
    began = harness.clock.now
    answer = harness.client.get(PATH, query_string={"namespace": "rl", **query})
    assert answer.status_code == 200
    assert "c1.rl:22270" in answer.text
    assert 1 < harness.clock.now - began < COORDINATION_SECONDS


def test_a_throttled_request_waits_for_retry_after(harness: Harness) -> None:
    harness.kube.failures = [Throttled(kind="DIJob", code=429, retry_after=7)]
    began = harness.clock.now
    _change(harness, "create")
    assert harness.clock.now - began == 7


def test_retries_end_with_503_and_retry_after(harness: Harness) -> None:
    harness.kube.failure = Unwritten(kind="DIJob", reason="ConnectionError")
    began = harness.clock.now
    body = {**REQUESTER, "collectors": {"replicas": 1}}
    answer = harness.client.post(PATH, json=body)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert COORDINATION_SECONDS - 3 < harness.clock.now - began <= COORDINATION_SECONDS


def test_only_some_threads_wait_between_retries() -> None:
    """A request fails at once while another one has the only place; later the place is free."""
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
