"""How much one job, one body and one set of headers may be."""

from __future__ import annotations

import json

import pytest

from di_server.access.rate_limits import RateLimiter
from di_server.model.references import JobRef
from di_server.problems import TooMany
from tests.unit.server.fakes import Clock, Harness, job

PATH = "/v2alpha1/rl.cartpole/replicas"


@pytest.mark.proves("rest.md#answers/429")
def test_a_job_above_its_burst_is_refused_with_retry_after(harness: Harness) -> None:
    codes = [harness.client.get(PATH).status_code for _ in range(41)]
    assert codes == [200] * 40 + [429]
    refused = harness.client.post(PATH, data='{"replicas": 1}')
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert harness.replicas() == 2


def test_each_job_has_its_own_rate(harness: Harness) -> None:
    harness.add(job("other"))
    for _ in range(60):
        harness.client.get(PATH)
    assert harness.client.get("/v2alpha1/rl.other/replicas").status_code == 200


def test_the_rate_refills_up_to_the_burst() -> None:
    clock = Clock()
    limiter, ref = RateLimiter(rate=20, burst=40, clock=clock), JobRef("rl", "a")
    for pause, granted in ((0.0, 40), (1.0, 20), (0.0625, 1), (3600.0, 40)):
        clock.sleep(pause)
        for _ in range(granted):
            limiter.take(ref)
        with pytest.raises(TooMany):
            limiter.take(ref)


@pytest.mark.proves("rest.md#answers/413")
def test_a_body_above_the_bound_is_refused(harness: Harness) -> None:
    for size, code in ((64 * 1024, 200), (64 * 1024 + 1, 413), (3_000_000, 413)):
        body = '{"replicas": 1}'.ljust(size)
        assert harness.client.post(PATH, data=body).status_code == code
    assert harness.replicas() == 3


@pytest.mark.proves("rest.md#answers/431")
def test_headers_above_the_bound_are_refused(harness: Harness) -> None:
    headers = {f"X-{number}": "v" * 4000 for number in range(5)}
    refused = harness.client.post(PATH, data='{"replicas": 1}', headers=headers)
    assert refused.status_code == 431
    assert json.loads(refused.data)["success"] is False
    assert harness.replicas() == 2
