"""Conflicts with other writers of a job, and refusals of the API server."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from werkzeug.test import TestResponse

from di_kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    Throttled,
    Unauthorized,
    Unavailable,
    Unwritten,
)
from di_server.storage.updates import ATTEMPTS
from tests.unit.server.fakes import Harness, Object, make_harness, watch
from tests.unit.server.fakes import job as make_job

PATH = "/v2alpha1/rl.cartpole/replicas"


def _data(answer: TestResponse) -> Any:
    return json.loads(answer.data)["data"]


@pytest.mark.proves("metrics.md#server/di-server-conflicts-total")
def test_a_conflict_is_retried_on_the_new_replicas(harness: Harness) -> None:
    raw = harness.job()
    conflicts = iter([True, True, False])

    def fail() -> None:
        if next(conflicts):
            raw["spec"]["tasks"][1]["replicas"] = 7
            raise Conflict(kind="DIJob", namespace="rl", name="cartpole", code=409)

    harness.kube.before_patch = fail
    answer = harness.client.post(PATH, data='{"replicas": 1}')
    assert _data(answer) == {"task": "collector", "replicas": 8}
    assert harness.replicas() == 8
    assert b"di_server_conflicts_total 2.0" in harness.client.get("/metrics").data


def test_retries_are_bounded_and_delayed(harness: Harness) -> None:
    def fail() -> None:
        raise Conflict(kind="DIJob", namespace="rl", name="cartpole", code=409)

    harness.kube.before_patch = fail
    before = harness.clock.now
    answer = harness.client.post(PATH, data='{"replicas": 1}')
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert harness.kube.calls["patch", "dijobs"] == ATTEMPTS
    assert 0 < harness.clock.now - before < 10
    assert harness.replicas() == 2


def test_concurrent_answers_are_the_values_they_set() -> None:
    harness = make_harness(burst=1000, threads=256)
    harness.add(make_job())
    harness.job()["spec"]["tasks"][1] |= {"replicas": 100, "maxReplicas": 200}
    application = harness.client.application
    answers: list[tuple[int, int]] = []

    def scale(method: str, sign: int) -> None:
        with application.test_client() as client:
            answer = client.open(PATH, method=method, data='{"replicas": 1}')
            answers.append((sign, _data(answer)["replicas"]))

    threads = [
        threading.Thread(target=scale, args=("POST", 1) if number % 2 else ("DELETE", -1))
        for number in range(64)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(answers) == 64
    assert harness.replicas() == 100 + sum(sign for sign, _ in answers)
    # Each answer is one step from where another one ended: as a walk from the first value to
    # the last, every value is left as often as it is reached.
    left = Counter(value - sign for sign, value in answers)
    reached = Counter(value for _, value in answers)
    assert left + Counter([harness.replicas()]) == reached + Counter([100])


def test_requests_that_wait_for_one_job_leave_threads_to_others() -> None:
    harness = make_harness(threads=8, burst=1000)
    harness.add(make_job(), make_job("other"))
    watch(harness)
    is_written, refused = threading.Event(), threading.Semaphore(0)
    application = harness.client.application

    def write() -> None:
        assert is_written.wait(60)

    def scale(_: int) -> int:
        with application.test_client() as client:
            status = client.post(PATH, data='{"replicas": 1}').status_code
        if status != 200:
            refused.release()
        return status

    harness.kube.before_patch = write
    with ThreadPoolExecutor(8) as threads:
        statuses = threads.map(scale, range(8))
        try:
            for _ in range(5):
                assert refused.acquire(timeout=60)
            other = threads.submit(harness.ask, PATH.replace("cartpole", "other"))
            assert other.result(timeout=60)[0] == 200
        finally:
            is_written.set()
        assert sorted(statuses) == [200] * 3 + [503] * 5
    assert harness.replicas() == 5


@pytest.mark.proves("rest.md#answers/504")
@pytest.mark.parametrize("cached", [True, False])
def test_a_write_without_an_answer_is_not_called_refused(harness: Harness, cached: bool) -> None:
    if cached:
        watch(harness)
    patch = harness.kube.patch

    def lose(*args: Any, **keywords: Any) -> Object:
        patch(*args, **keywords)
        raise Unavailable(kind="DIJob", reason="Timeout")

    harness.kube.patch = lose  # type: ignore[method-assign]
    key = {"Idempotency-Key": "k"}
    assert harness.ask(PATH, {"replicas": 1}, headers=key)[0] == 504
    harness.kube.patch = patch  # type: ignore[method-assign]
    assert harness.ask(PATH, {"replicas": 1}, headers=key)[1]["replicas"] == 3


def test_a_write_that_was_not_sent_is_refused_for_now(harness: Harness) -> None:
    def absent() -> None:
        raise Unwritten(kind="DIJob", reason="ConnectionError")

    harness.kube.before_patch = absent
    assert harness.ask(PATH, {"replicas": 1})[0] == 503


@pytest.mark.proves("rest.md#answers/503")
def test_each_refusal_of_the_api_server_has_its_status(harness: Harness) -> None:
    for error, status in (
        (Unavailable(kind="DIJob", reason="ConnectionError"), 503),
        (Throttled(kind="DIJob", code=429, retry_after=7), 503),
        (Unauthorized(kind="DIJob", code=401), 503),
        (Forbidden(kind="DIJob", code=403, message="user 'x' may not"), 403),
        (Invalid(kind="DIJob", code=422, message="spec.tasks: too many"), 422),
    ):
        harness.kube.failure = error
        answer = harness.client.post(PATH, data='{"replicas": 1}')
        assert answer.status_code == status, error
        assert "'" not in answer.text
        if status == 503:
            assert int(answer.headers["Retry-After"]) == (error.retry_after or 2)
