"""What one caller uses up is its own: requests a second, and Idempotency-Keys."""

from __future__ import annotations

import pytest

from di_api.names import ANNOTATION_IDEMPOTENCY
from di_server.config import AuthMode
from di_server.jobs.idempotency import idempotency_key
from tests.unit.server.fakes import Harness, job, make_harness, pod, pod_user, watch

PATH = "/v2alpha1/rl.cartpole/replicas"
BURST = 40
USERS = {
    "ann": {"username": "ann", "uid": "ann-1"},
    "ann again": {"username": "ann", "uid": "ann-1"},
    "another ann": {"username": "ann", "uid": "ann-2"},
    "bob": {"username": "bob"},
}


@pytest.fixture
def harness() -> Harness:
    harness = make_harness(auth=AuthMode.REQUIRED)
    harness.add(job(), job("other", uid="uid-2"))
    harness.add_pods(pod("mine", 0, "10.0.0.1"), pod("next", 1, "10.0.0.2"))
    harness.kube.users = {"mine": pod_user("mine"), "next": pod_user("next"), **USERS}
    harness.kube.allowed |= {
        (user, verb, f"rl/{name}")
        for user in ("ann", "bob")
        for verb in ("get", "update")
        for name in ("cartpole", "other")
    } | {("ann", "get", "rl/")}
    return harness


def got(harness: Harness, token: str, path: str = PATH) -> int:
    return harness.ask(path, method="GET", token=token)[0]


@pytest.mark.proves("security.md#callers/requests-of-a-user")
@pytest.mark.parametrize("other", ["mine", "bob", "another ann"])
def test_a_user_uses_up_no_other_callers_rate(harness: Harness, other: str) -> None:
    assert [got(harness, "ann") for _ in range(BURST + 1)] == [200] * BURST + [429]
    assert got(harness, other) == 200


def test_a_user_has_one_rate_for_all_jobs_and_tokens(harness: Harness) -> None:
    for number in range(BURST):
        path = PATH if number % 2 else "/v2alpha1/rl.other/replicas"
        assert got(harness, "ann" if number % 3 else "ann again", path) == 200
    assert [got(harness, "ann"), got(harness, "ann again")] == [429, 429]


def test_a_user_who_lists_all_jobs_uses_up_no_other_users_rate(harness: Harness) -> None:
    everything = "/v1alpha2/replicas?namespace=rl"
    harness.kube.allowed |= {("bob", "get", "rl/"), ("ann", "list", "rl/"), ("bob", "list", "rl/")}
    statuses = {got(harness, "ann", everything) for _ in range(BURST)}
    assert statuses == {200}
    assert got(harness, "ann", everything) == 429
    assert got(harness, "bob", everything) == 200


@pytest.mark.proves("security.md#callers/requests-of-a-job-s-pods")
def test_the_pods_of_a_job_have_one_rate_together(harness: Harness) -> None:
    codes = [got(harness, "mine" if number % 2 else "next") for number in range(BURST + 1)]
    assert codes == [200] * BURST + [429]
    assert got(harness, "ann") == 200


def scaled(harness: Harness, token: str, replicas: int = 1) -> int:
    return harness.ask(
        PATH,
        {"replicas": replicas},
        method="POST",
        token=token,
        headers={"Idempotency-Key": "k1"},
    )[0]


@pytest.mark.proves("security.md#callers/idempotency-keys", "rest.md#retrying-without-doubling")
def test_one_key_of_two_callers_is_two_keys(harness: Harness) -> None:
    callers = ("ann", "bob", "mine", "next", "another ann")
    for count, token in enumerate(callers, 1):
        assert [scaled(harness, token) for _ in range(3)] == [200] * 3
        assert harness.replicas() == 2 + count
    # Of one caller, whatever token it shows.
    assert [scaled(harness, "ann again"), scaled(harness, "ann", 2)] == [200, 409]
    assert harness.replicas() == 2 + len(callers)


def test_a_record_of_an_earlier_version_is_found(harness: Harness) -> None:
    record = idempotency_key("k1", "POST", {"replicas": 1}, caller="")
    assert record is not None
    harness.job()["metadata"]["annotations"] = {
        ANNOTATION_IDEMPOTENCY: f'[["{record.digest}","{record.request}","collector",3]]'
    }
    assert scaled(harness, "ann") == 200
    assert harness.replicas() == 2


@pytest.mark.proves("operations.md#ip-families")
@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1"])
def test_a_pod_is_known_by_each_of_its_addresses(address: str) -> None:
    harness = make_harness(auth=AuthMode.OPTIONAL)
    mine = pod("mine", 0, "10.0.0.1")
    mine["status"]["podIPs"] = [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
    harness.add(job())
    harness.add_pods(mine, pod("next", 1, "10.0.0.2"))
    watch(harness)
    assert harness.ask(PATH, method="GET", ip=address)[0] == 200
    assert harness.ask(PATH, method="GET", ip="fd00::2")[0] == 401
