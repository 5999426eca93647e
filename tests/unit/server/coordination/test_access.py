"""Which replicas a caller may list and change through a coordinator, in each mode."""

from __future__ import annotations

from typing import Any

import pytest

from di_server.config import AuthMode
from tests.unit.server.fakes import (
    Harness,
    Object,
    coordinated,
    job,
    make_harness,
    pod,
    pod_user,
    replica,
    watch,
)

PATH = "/v1alpha1/replicas"
MINE, THEIRS = "10.0.0.1", "10.0.0.2"
UNKNOWN = "10.9.9.9"
COORDINATOR = "cartpole-coordinator"
OF_RL = [COORDINATOR, "other-coordinator"]


def _coordinator(job: Object, ip: str, name: str | None = None) -> Object:
    return pod(name or f"{job['metadata']['name']}-coordinator", "", ip, owner=job)


def _harness(mode: AuthMode, *, watched: bool, tls_port: int | None = None) -> Harness:
    harness = make_harness(auth=mode, tls_port=tls_port)
    mine = coordinated(replica("c1"))
    theirs = coordinated(name="other", uid="uid-2")
    far = coordinated(name="far", namespace="lab", uid="uid-3")
    harness.add(mine, theirs, far)
    harness.add_pods(_coordinator(mine, MINE), _coordinator(theirs, THEIRS))
    if watched:
        watch(harness)
    return harness


def _post(harness: Harness, name: str = "cartpole", *, ip: str = MINE, **caller: Any) -> int:
    body = {"namespace": "rl", "coordinator": f"{name}-coordinator", "collectors": {"replicas": 1}}
    return harness.ask(PATH, body, ip=ip, **caller)[0]


def _list(harness: Harness, query: str = "", *, ip: str = MINE, **caller: Any) -> object:
    """The coordinators that are listed, or the status of a refusal."""
    status, data = harness.ask(f"{PATH}{query}", ip=ip, **caller)
    return [each["coordinator"] for each in data] if status == 200 else status


@pytest.fixture(params=[False, True], ids=["live", "watched"])
def watched(request: pytest.FixtureRequest) -> bool:
    """Whether the server's watches have filled its caches."""
    found: bool = request.param
    return found


def test_a_pod_reaches_its_own_job_by_its_address(watched: bool) -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=watched)
    assert _post(harness) == 200
    assert _post(harness, "other") == 401
    assert _post(harness, ip=UNKNOWN) == 401
    assert (harness.kube.calls["list", "pods"] == 2) is watched


def test_a_pod_that_has_just_started_reaches_its_job(watched: bool) -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=watched)
    harness.add_pods(_coordinator(coordinated(), "10.0.0.3", "cartpole-aggregator-bbbbb"))
    assert _post(harness, ip="10.0.0.3") == 200
    assert _list(harness, ip="10.0.0.3") == [COORDINATOR]


def test_an_address_that_another_pod_has_taken_over_is_looked_up_again(watched: bool) -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=watched)
    successor = _coordinator(coordinated(name="far", namespace="lab", uid="uid-3"), MINE)
    harness.add_pods(successor)
    if watched:
        watch(harness)
    del harness.kube.objects["pods", "rl", "cartpole-coordinator"]
    assert _post(harness) == 401
    assert _list(harness) == ["far-coordinator"]


def test_a_pod_of_an_earlier_job_of_the_name_is_refused(watched: bool) -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=watched)
    harness.add_pods(_coordinator(job(uid="uid-0"), "10.0.0.8", "cartpole-collector-bbbbb"))
    if watched:
        watch(harness)
    assert _post(harness, ip="10.0.0.8") == 403
    assert _list(harness, ip="10.0.0.8") == []


@pytest.mark.parametrize("query", ["", "?namespace=rl"])
def test_a_pod_lists_its_own_job_alone(watched: bool, query: str) -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=watched)
    assert _list(harness, query) == [COORDINATOR]
    assert _list(harness, query, ip=THEIRS) == ["other-coordinator"]
    assert _list(harness, query, ip=UNKNOWN) == 401
    assert _list(harness, "?namespace=lab") == []


@pytest.mark.proves("rest.md#who-may/off")
def test_without_sign_in_all_jobs_are_listed(watched: bool) -> None:
    harness = _harness(AuthMode.OFF, watched=watched)
    assert _list(harness, ip=UNKNOWN) == ["far-coordinator", *OF_RL]


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
def test_with_a_token_the_permission_decides_what_is_listed(mode: AuthMode, watched: bool) -> None:
    harness = _harness(mode, watched=watched)
    harness.kube.users["t"] = {"username": "ann"}
    assert _list(harness, token="t") == 403
    harness.kube.allowed.add(("ann", "get", "rl/"))
    assert _list(harness, "?namespace=rl", token="t") == OF_RL
    assert _list(harness, token="t") == 403
    harness.kube.allowed.add(("ann", "get", "/"))
    harness.clock.sleep(11)
    assert _list(harness, token="t") == ["far-coordinator", *OF_RL]


@pytest.mark.parametrize("mode", [AuthMode.OPTIONAL, AuthMode.REQUIRED])
def test_the_token_of_a_pod_lists_its_own_job(mode: AuthMode, watched: bool) -> None:
    harness = _harness(mode, watched=watched)
    harness.kube.users["t"] = pod_user(COORDINATOR)
    assert _list(harness, token="t", ip=UNKNOWN) == [COORDINATOR]
    assert _post(harness, token="t", ip=UNKNOWN) == 200
    assert _post(harness, "other", token="t", ip=UNKNOWN) == 403


def test_where_a_token_is_required_an_address_is_not_enough(watched: bool) -> None:
    harness = _harness(AuthMode.REQUIRED, watched=watched)
    assert _post(harness) == 401
    assert _list(harness) == 401


def test_a_refusal_does_not_show_whether_the_job_exists(watched: bool) -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=watched)
    assert _post(harness, "missing") == 401
    harness.kube.users["t"] = {"username": "ann"}
    assert _post(harness, "missing", token="t") == 403


def test_beside_https_a_token_lists_all_jobs_over_https_alone() -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=True, tls_port=8443)
    user = pod_user(COORDINATOR)
    harness.kube.users |= {"ann": {"username": "ann"}, "pod": user}
    harness.kube.allowed |= {("ann", "get", "rl/"), (user["username"], "get", "rl/")}
    assert _list(harness, "?namespace=rl", token="ann") == 403
    assert _list(harness, "?namespace=rl", token="pod") == [COORDINATOR]
    for token in ("ann", "pod"):
        assert _list(harness, "?namespace=rl", token=token, scheme="https") == OF_RL


def _codes(harness: Harness, pods: list[str], **caller: Any) -> list[int]:
    """The status of a request for each of the pods that it names as its sender."""
    return [harness.ask(f"{PATH}?namespace=rl&name={each}", **caller)[0] for each in pods]


def test_a_pod_that_names_others_has_no_further_rate_limit() -> None:
    harness = _harness(AuthMode.OPTIONAL, watched=True)
    harness.add_pods(_coordinator(coordinated(), "10.0.0.3", "cartpole-collector-bbbbb"))
    watch(harness)
    others = [f"cartpole-aggregator-{number:05}" for number in range(50)]
    for ip in (MINE, "10.0.0.3"):
        assert 429 in _codes(harness, others, ip=ip)
    assert harness.kube.calls["get", "dijobs"] == 40
    assert _post(harness) == 200


def test_an_aggregator_has_a_rate_limit_of_its_own() -> None:
    harness = make_harness(auth=AuthMode.OPTIONAL)
    aggregator = "cartpole-aggregator-bbbbb"
    mine = coordinated(replica(aggregator, "aggregator"))
    harness.add(mine)
    harness.add_pods(_coordinator(mine, MINE), _coordinator(mine, THEIRS, aggregator))
    watch(harness)
    assert _codes(harness, [COORDINATOR] * 41, ip=MINE) == [200] * 40 + [429]
    assert _codes(harness, [aggregator], ip=THEIRS) == [200]
