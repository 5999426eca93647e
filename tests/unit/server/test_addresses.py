"""The list of addresses by rank."""

from __future__ import annotations

import pytest

from di_server.jobs.addresses import MAX_RANKS, addresses
from tests.unit.server.fakes import Harness, Object, job, pod


def test_addresses_come_by_rank_and_gaps_are_empty() -> None:
    pods = [pod("c", 2, "10.0.0.3"), pod("a", 0, "10.0.0.1"), pod("b", 1)]
    assert addresses(job(), pods) == ["10.0.0.1:22270", "", "10.0.0.3:22270"]


def test_a_job_without_pods_has_a_gap_for_every_replica() -> None:
    assert addresses(job(), []) == ["", "", ""]


def test_a_rank_past_the_count_makes_the_list_longer() -> None:
    assert addresses(job(), [pod("a", 4, "10.0.0.1")]) == ["", "", "", "", "10.0.0.1:22270"]


def test_an_ipv6_address_is_bracketed() -> None:
    assert addresses(job(), [pod("a", 0, "fd00::1")])[0] == "[fd00::1]:22270"


@pytest.mark.parametrize(
    ("container", "port_name", "port"),
    [
        ("di-container", "di-port", 9000),
        ("di-container", "http", 22270),
        ("sidecar", "di-port", 22270),
    ],
)
def test_only_the_named_port_of_the_named_container_overrides(
    container: str, port_name: str, port: int
) -> None:
    ports = [{"name": port_name, "containerPort": 9000}]
    made = pod("a", 0, "10.0.0.1", container=container, ports=ports)
    assert addresses(job(), [made])[0] == f"10.0.0.1:{port}"


def _deleted(made: Object) -> Object:
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod("a", 0, "10.0.0.1", owner=job(uid="earlier")), id="of an earlier job"),
        pytest.param(pod("a", 0, "10.0.0.1", phase="Failed"), id="failed"),
        pytest.param(pod("a", 0, "10.0.0.1", phase="Succeeded"), id="succeeded"),
        pytest.param(_deleted(pod("a", 0, "10.0.0.1")), id="ending"),
        pytest.param(pod("a", "", "10.0.0.1"), id="without rank"),
        pytest.param(pod("a", "-1", "10.0.0.1"), id="of a negative rank"),
        pytest.param(pod("a", "9" * 5000, "10.0.0.1"), id="of an endless rank"),
        pytest.param(pod("a", MAX_RANKS, "10.0.0.1"), id="of a rank nobody has"),
        pytest.param(pod("a", "\u0663", "10.0.0.1"), id="of a rank in other digits"),
    ],
)
def test_a_pod_that_does_not_serve_the_job_is_not_listed(made: Object) -> None:
    assert addresses(job(), [made]) == ["", "", ""]


def test_a_get_with_a_body_gets_the_list(harness: Harness) -> None:
    harness.add_pods(pod("a", 0, "10.0.0.1"))
    answer = harness.client.get("/v2alpha1/job/rl/cartpole/replicas", data="{}")
    assert answer.json == {
        "success": True,
        "code": 0,
        "message": "successfully get replicas",
        "data": ["10.0.0.1:22270", "", ""],
    }
