"""The list of addresses by rank."""

from __future__ import annotations

import pytest

from di_server.jobs.addresses import MAX_RANKS, addresses
from tests.unit.server.fakes import Harness, Object, job, pod


@pytest.mark.proves(
    "rest.md#operations-on-tasks/get-id-replicas",
    "rest.md#di-server-jobs-over-rest/answer",
    "rest.md#di-server-jobs-over-rest/address",
)
@pytest.mark.parametrize(
    ("pods", "listed"),
    [
        (
            [pod("c", 2, "10.0.0.3"), pod("a", 0, "fd00::1"), pod("b", 1)],
            ["[fd00::1]:22270", "", "10.0.0.3:22270"],
        ),
        ([], ["", "", ""]),
        ([pod("a", 4, "10.0.0.1")], ["", "", "", "", "10.0.0.1:22270"]),
    ],
    ids=["a gap for a pod without an address", "no pods", "a rank above the replicas"],
)
def test_addresses_are_listed_by_rank(pods: list[Object], listed: list[str]) -> None:
    assert addresses(job(), pods) == listed


@pytest.mark.proves("rest.md#di-server-jobs-over-rest/address")
@pytest.mark.parametrize(
    ("container", "port_name", "port"),
    [
        ("di-container", "di-port", 9000),
        ("di-container", "http", 22270),
        ("sidecar", "di-port", 22270),
    ],
)
def test_the_port_is_di_port_of_the_main_container(
    container: str, port_name: str, port: int
) -> None:
    ports = [{"name": port_name, "containerPort": 9000}]
    made = pod("a", 0, "10.0.0.1", container=container, ports=ports)
    assert addresses(job(), [made])[0] == f"10.0.0.1:{port}"


ENDING = pod("a", 0, "10.0.0.1")
ENDING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "made",
    [
        ENDING,
        pod("a", 0, "10.0.0.1", owner=job(uid="earlier")),
        *(pod("a", 0, "10.0.0.1", phase=phase) for phase in ("Failed", "Succeeded")),
        *(pod("a", rank, "10.0.0.1") for rank in ("", "-1", "9" * 5000, MAX_RANKS, "\u0663")),
    ],
)
def test_a_pod_that_does_not_serve_the_job_is_not_listed(made: Object) -> None:
    assert addresses(job(), [made]) == ["", "", ""]


def test_addresses_are_answered_to_a_get_with_a_body(harness: Harness) -> None:
    harness.add_pods(pod("a", 0, "10.0.0.1"))
    answer = harness.client.get("/v2alpha1/job/rl/cartpole/replicas", data="{}")
    assert answer.json == {
        "success": True,
        "code": 0,
        "message": "successfully get replicas",
        "data": ["10.0.0.1:22270", "", ""],
    }
