"""What is read from the bodies and queries of coordinators."""

from __future__ import annotations

from typing import Any

import pytest

from di_server.coordination.requests import Requester, RoleDemand, demand, failed, query, requester
from di_server.model.references import JobRef
from di_server.problems import Problem

ONE: dict[str, Any] = {"replicas": 1}
NO_AMOUNTS: list[Any] = [[], "2", {"replicas": "2"}, {"replicas": 1.0}, {"replicas": True}]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (None, RoleDemand()),
        ({}, RoleDemand()),
        ({"replicas": None}, RoleDemand()),
        ({"replicas": 2, "cpu": "1", "gpu": 3}, RoleDemand(2)),
        (ONE | {"cpus": 0, "gpus": "0", "memory": ""}, RoleDemand(1)),
        (ONE | {"cpus": 0.5}, RoleDemand(1, {"cpu": "500m"})),
        (ONE | {"cpus": "2", "memory": " 1Gi "}, RoleDemand(1, {"cpu": "2", "memory": "1Gi"})),
        (ONE | {"memory": 1024}, RoleDemand(1, {"memory": "1Ki"})),
        (ONE | {"gpus": "2"}, RoleDemand(1, {"nvidia.com/gpu": 2})),
        (ONE | {"gpus": 2.0}, RoleDemand(1, {"nvidia.com/gpu": 2})),
    ],
)
def test_amounts_are_read_as_clients_write_them(raw: object, wanted: RoleDemand) -> None:
    assert demand({"learners": raw}).learners == wanted
    assert demand({"collectors": raw}).collectors == wanted


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        *((400, raw) for raw in NO_AMOUNTS),
        *((400, ONE | {"cpus": cpus}) for cpus in ("many", [1], True)),
        *((422, {"replicas": count}) for count in (-1, 2049)),
        *((422, ONE | more) for more in ({"cpus": -1}, {"memory": "-1Gi"}, {"memory": "100000Ei"})),
        *((422, ONE | {"gpus": gpus}) for gpus in (1.5, 1025, -2)),
    ],
)
@pytest.mark.parametrize("kind", ["collectors", "learners"])
def test_other_amounts_are_refused(kind: str, raw: object, status: int) -> None:
    with pytest.raises(Problem, match=kind) as refusal:
        demand({kind: raw})
    assert refusal.value.status == status


@pytest.mark.proves("rest.md#di-server-jobs-over-rest/names-a-job-by")
@pytest.mark.parametrize(
    ("pod", "job"),
    [
        ("cartpole-coordinator", "cartpole"),
        ("a-coordinator-coordinator", "a-coordinator"),
        ("cartpole-aggregator-bcdfg", "cartpole"),
    ],
)
def test_the_name_of_a_requester_names_its_job(pod: str, job: str) -> None:
    found = requester("rl", pod)
    assert found == Requester(JobRef("rl", job), pod)
    assert found.coordinator == f"{job}-coordinator"


@pytest.mark.parametrize(
    ("namespace", "pod", "status"),
    [
        *((namespace, "a-coordinator", 400) for namespace in (None, "rl/x")),
        *(("rl", pod, 400) for pod in (None, "", 3, "a_coordinator", "-coordinator")),
        *(("rl", pod, 404) for pod in ("coordinator", "a-collector-bcdfg")),
    ],
)
def test_other_names_are_no_requesters(namespace: object, pod: object, status: int) -> None:
    with pytest.raises(Problem) as refusal:
        requester(namespace, pod)
    assert refusal.value.status == status


@pytest.mark.parametrize(
    ("pairs", "asked"),
    [
        ([], None),
        ([("namespace", "")], None),
        ([("NameSpace", "rl")], "rl"),
        ([("namespace", "rl"), ("coordinator", "")], "rl"),
        *(
            ([("namespace", "rl"), (key, "a-coordinator")], requester("rl", "a-coordinator"))
            for key in ("coordinator", "Aggregator", "name")
        ),
    ],
)
def test_a_query_names_a_namespace_or_a_requester(
    pairs: list[tuple[str, str]], asked: object
) -> None:
    assert query(pairs) == asked


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("foo", "x")], "request param foo is not supported"),
        ([("namespace", "a"), ("Namespace", "a")], "twice"),
        ([("namespace", "a"), ("name", "a-coordinator"), ("aggregator", "b")], "give one of"),
        ([("coordinator", "a-coordinator")], "namespace must be given"),
        ([("namespace", "A")], "DNS label"),
    ],
)
def test_other_queries_are_refused(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(Problem, match=message) as refusal:
        query(pairs)
    assert refusal.value.status == 400


def test_failed_replicas_are_names_in_either_list() -> None:
    assert failed({"collectors": ["a", "b", "a"], "learners": ["c"]}) == {"a", "b", "c"}
    assert failed({"collectors": None}) == frozenset()


@pytest.mark.parametrize("names", ["a", [1], {"a": 1}, [None]])
def test_other_lists_of_failed_replicas_are_refused(names: Any) -> None:
    with pytest.raises(Problem, match="learners") as refusal:
        failed({"learners": names})
    assert refusal.value.status == 400
