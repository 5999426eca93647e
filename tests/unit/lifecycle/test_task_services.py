"""Services of tasks, through the decisions that make and delete them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task
from tests.unit.lifecycle.test_ownership import foreign

PORTS = [{"name": "http", "port": 80}]
JUDGED = (task("learner"), task("judge", 2, service={"ports": PORTS}))
OWN = {"di-x", "x-judge"}


def services(cluster: ClusterModel) -> set[str]:
    return {name for kind, name in cluster.objects if kind == "Service"}


def behind(cluster: ClusterModel, service: str) -> set[str]:
    """The pods that a Service selects."""
    wanted = cluster.objects["Service", service]["spec"]["selector"]
    return {
        name
        for name, pod in cluster.pods.items()
        if wanted.items() <= pod["metadata"]["labels"].items()
    }


@pytest.mark.parametrize("select", ["All", "Leaders"])
def test_the_service_of_a_task_selects_its_pods_and_no_others(select: str) -> None:
    service = {"ports": PORTS, "select": select}
    cluster = running(task("learner"), task("judge", 2, service=service), task("rollout"))
    assert behind(cluster, "x-judge") == {"x-judge-0", "x-judge-1"}
    assert services(cluster) == OWN


def test_only_who_is_behind_a_service_has_its_labels() -> None:
    leaders = {"ports": PORTS, "select": "Leaders"}
    cluster = running(*JUDGED, task("rollout", service=leaders))
    marks = {
        name: {key for key in pod["metadata"]["labels"] if key.split("/")[1][:3] in ("in-", "rep")}
        for name, pod in cluster.pods.items()
    }
    listed = {"diengine/in-service"}
    assert marks == {
        "x-learner-0": set(),
        "x-judge-0": listed,
        "x-judge-1": listed,
        "x-rollout-0": {*listed, "diengine/replica-leader"},
    }


def test_it_is_made_before_any_pod_with_one_write_more() -> None:
    cluster, plain = (
        ClusterModel(job(*JUDGED)),
        ClusterModel(job(task("learner"), task("judge", 2))),
    )
    for each in (cluster, plain):
        each.settle()
    assert cluster.writes[:3] == [
        "create Service di-x",
        "create Service x-judge",
        *plain.writes[1:2],
    ]
    assert len(cluster.writes) == len(plain.writes) + 1


def test_all_pods_are_told_where_services_are() -> None:
    cluster = running(*JUDGED)
    for pod in cluster.pods:
        assert cluster.env(pod)["DI_JUDGE_SERVICE"] == "x-judge.rl.svc.cluster.local:80"
    plain = running()
    assert not any(name.endswith("_SERVICE") for name in plain.env("x-learner-0"))


@pytest.mark.parametrize("lost", [["di-x"], ["x-judge"], ["di-x", "x-judge"]])
def test_a_service_that_somebody_deletes_is_made_anew_and_nothing_else(lost: list[str]) -> None:
    cluster = running(*JUDGED)
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    for name in lost:
        del cluster.objects["Service", name]
    cluster.writes.clear()
    cluster.settle()
    assert cluster.writes == [f"create Service {name}" for name in lost]
    assert {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()} == before
    assert cluster.phase == "Running"


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_it_goes_with_the_job(end: str) -> None:
    cluster = running(*JUDGED, backoffLimit=0)
    getattr(cluster, end)(*(cluster.pods if end == "succeed" else ["x-judge-0"]))
    cluster.settle()
    assert cluster.phase in ("Succeeded", "Failed")
    assert services(cluster) == set()


def test_one_of_an_earlier_job_of_the_name_goes_before_pods_are_made() -> None:
    old = running(*JUDGED)
    new = ClusterModel(job(*JUDGED, uid="uid-new"))
    new.objects["Service", "x-judge"] = old.objects["Service", "x-judge"]
    new.settle()
    assert new.writes[0] == "delete Service x-judge"
    owner = new.objects["Service", "x-judge"]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == "uid-new"
    assert len(new.pods) == 3


def test_a_foreign_service_of_its_name_fails_a_new_job_and_is_not_touched() -> None:
    cluster = ClusterModel(job(*JUDGED))
    stored = cluster.put(foreign("Service", "x-judge"))
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "PodNameConflict"
    assert "Service x-judge exists" in cluster.condition("Failed")["message"]
    assert cluster.objects["Service", "x-judge"] == stored
    assert cluster.pods == {}


def test_a_running_job_goes_on_without_one_whose_name_was_taken() -> None:
    cluster = running(*JUDGED)
    cluster.put(foreign("Service", "x-judge"))
    cluster.events.clear()
    cluster.settle()
    assert cluster.phase == "Running"
    assert {event.reason for event in cluster.events} == {"PodNameConflict"}
    del cluster.objects["Service", "x-judge"]
    cluster.settle()
    assert behind(cluster, "x-judge") == {"x-judge-0", "x-judge-1"}


@pytest.mark.parametrize("writes", range(1, 6))
def test_an_operator_that_dies_at_any_write_leaves_nothing_out(writes: int) -> None:
    cluster = ClusterModel(job(*JUDGED))
    with pytest.raises(Crash):
        cluster.reconcile(crash_after=writes)
    cluster.settle()
    assert services(cluster) == OWN
    assert len(cluster.pods) == 3


def test_a_label_that_somebody_took_off_a_pod_is_put_back() -> None:
    cluster = running(*JUDGED)
    labels: dict[str, Any] = cluster.pods["x-judge-1"]["metadata"]["labels"]
    del labels["diengine/in-service"]
    assert behind(cluster, "x-judge") == {"x-judge-0"}
    cluster.settle()
    assert behind(cluster, "x-judge") == {"x-judge-0", "x-judge-1"}


def test_one_without_ports_which_no_api_server_takes_is_told_to_nobody() -> None:
    cluster = running(*JUDGED)
    cluster.edit(tasks=[task("learner", 2), task("judge", 2, service={"ports": []})])
    cluster.settle()
    assert "DI_JUDGE_SERVICE" not in cluster.env("x-learner-1")
