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


@pytest.mark.proves(
    "dijob.md#spec-tasks/service-ports",
    "dijob.md#spec-tasks/port",
    "dijob.md#spec-tasks/targetport",
    "dijob.md#spec-tasks/protocol",
    "dijob.md#spec-tasks/name-dns-label-2",
)
@pytest.mark.parametrize("select", ["All", "Leaders"])
def test_the_service_of_a_task_selects_its_pods_and_no_others(select: str) -> None:
    service = {"ports": PORTS, "select": select}
    cluster = running(task("learner"), task("judge", 2, service=service), task("rollout"))
    assert behind(cluster, "x-judge") == {"x-judge-0", "x-judge-1"}
    assert services(cluster) == OWN


def test_only_pods_behind_a_service_have_its_labels() -> None:
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


def test_a_service_is_made_before_any_pod_with_one_write() -> None:
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


@pytest.mark.proves("roles.md#a-service-for-a-task/di-task-service")
def test_all_pods_get_the_addresses_of_services() -> None:
    cluster = running(*JUDGED)
    for pod in cluster.pods:
        assert cluster.env(pod)["DI_JUDGE_SERVICE"] == "x-judge.rl.svc.cluster.local:80"
    plain = running()
    assert not any(name.endswith("_SERVICE") for name in plain.env("x-learner-0"))


@pytest.mark.parametrize("lost", [["di-x"], ["x-judge"], ["di-x", "x-judge"]])
def test_a_deleted_service_is_made_again_and_nothing_else(lost: list[str]) -> None:
    cluster = running(*JUDGED)
    before = cluster.uids
    for name in lost:
        del cluster.objects["Service", name]
    cluster.writes.clear()
    cluster.settle()
    assert cluster.writes == [f"create Service {name}" for name in lost]
    assert (cluster.uids, cluster.phase) == (before, "Running")


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_a_service_is_deleted_with_the_job(end: str) -> None:
    cluster = running(*JUDGED, backoffLimit=0)
    getattr(cluster, end)(*(cluster.pods if end == "succeed" else ["x-judge-0"]))
    cluster.settle()
    assert cluster.phase in ("Succeeded", "Failed")
    assert services(cluster) == set()


def test_a_service_of_an_earlier_job_goes_before_pods_are_made() -> None:
    old = running(*JUDGED)
    new = ClusterModel(job(*JUDGED, uid="uid-new"))
    new.objects["Service", "x-judge"] = old.objects["Service", "x-judge"]
    new.settle()
    assert new.writes[0] == "delete Service x-judge"
    owner = new.objects["Service", "x-judge"]["metadata"]["ownerReferences"][0]
    assert (owner["uid"], len(new.pods)) == ("uid-new", 3)


def test_a_new_job_waits_for_the_name_of_a_service_of_its_task() -> None:
    cluster = ClusterModel(job(*JUDGED))
    stored = cluster.put(foreign("Service", "x-judge"))
    cluster.settle()
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "PodNameConflict")
    assert "Service x-judge exists" in cluster.condition("Pending")["message"]
    assert (cluster.objects["Service", "x-judge"], cluster.pods) == (stored, {})


def test_a_running_job_goes_on_without_a_service_of_a_taken_name() -> None:
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
    assert (services(cluster), len(cluster.pods)) == (OWN, 3)


@pytest.mark.proves("lifecycle.md#edited-by-hand/diengine-in-service-diengine-replica")
def test_a_removed_service_label_is_restored() -> None:
    cluster = running(*JUDGED)
    labels: dict[str, Any] = cluster.pods["x-judge-1"]["metadata"]["labels"]
    del labels["diengine/in-service"]
    assert behind(cluster, "x-judge") == {"x-judge-0"}
    cluster.settle()
    assert behind(cluster, "x-judge") == {"x-judge-0", "x-judge-1"}


def test_a_service_without_ports_is_not_made() -> None:
    cluster = running(*JUDGED)
    cluster.edit(tasks=[task("learner", 2), task("judge", 2, service={"ports": []})])
    cluster.settle()
    assert "DI_JUDGE_SERVICE" not in cluster.env("x-learner-1")
