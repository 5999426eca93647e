"""Jobs with a queue: which replicas and pods use quota, and when each releases it."""

from __future__ import annotations

from di_operator.lifecycle.policies.drain import LEAVE_SECONDS
from tests.unit.lifecycle.cluster_model import job
from tests.unit.lifecycle.objects.test_task_services import PORTS, behind
from tests.unit.lifecycle.scheduling.kueue_model import (
    CORE,
    QueuedCluster,
    admitted,
    queued,
    tiered,
    up,
    work,
)


def test_scaled_down_a_replica_is_gone_before_its_quota() -> None:
    cluster = admitted(tiered(4, 2))
    for name in ("x-work-x0", "x-work-x1"):
        cluster.admit(name)
    up(cluster)
    cluster.scale("work", 3).settle()
    assert list(cluster.states().values()).count("admitted") == 3
    cluster.settle().end_deleted().settle()
    assert cluster.states() == {CORE: "admitted", "x-work-x0": "admitted"}


def test_a_pod_that_lost_its_labels_uses_quota_until_it_is_gone() -> None:
    cluster = admitted(tiered(4, 2))
    for name in ("x-work-x0", "x-work-x1"):
        cluster.admit(name)
    up(cluster)
    cluster.scale("work", 3).settle()
    del cluster.pods["x-work-3"]["metadata"]["labels"]
    cluster.settle()
    assert cluster.held("work") == 4
    cluster.end_deleted().settle()
    assert cluster.held("work") == 3


def test_a_new_pod_does_not_use_the_quota_that_an_evicted_workload_releases() -> None:
    cluster = admitted(tiered(4, 2))
    for name in ("x-work-x0", "x-work-x1"):
        cluster.admit(name)
    up(cluster)
    cluster.evict_workload("x-work-x0").settle()
    assert cluster.ending == ["x-work-3"]
    cluster.delete_pod("x-work-2", force=True).settle()
    assert cluster.held("work") >= cluster.using("work")
    cluster.end_deleted().settle()
    assert [*cluster.pods] == ["x-work-0", "x-work-1", "x-work-2"]


def test_an_evicted_replica_that_drains_leaves_its_service_once() -> None:
    serving = {"service": {"ports": PORTS}, "drain": {"command": ["true"], "timeoutSeconds": 5}}
    cluster = admitted(tiered(3, 2) | serving).admit("x-work-x0")
    up(cluster)
    cluster.evict_workload("x-work-x0").settle()
    assert behind(cluster, "x-work") == {"x-work-0", "x-work-1"}
    cluster.pass_time(LEAVE_SECONDS).settle()
    assert cluster.ending == ["x-work-2"]


def test_a_standby_pod_waits_for_the_quota_of_one_that_is_ending() -> None:
    cluster = admitted(work(2, standby=1))
    cluster.run().settle()
    (standby,) = (name for name in cluster.pods if "standby" in name)
    cluster.delete_pod(standby).settle()
    assert cluster.using("work") == 3
    cluster.end_deleted().settle()
    assert [*cluster.pods] == ["x-work-0", "x-work-1", "x-work-standby-0"]


def test_a_preemptible_job_has_the_admitted_part_of_its_nodes() -> None:
    body = queued(job(work(4, minReplicas=2, maxReplicas=6), preemptible=True))
    cluster = QueuedCluster(body).place().settle()
    assert cluster.workloads[CORE]["spec"]["podSets"][0]["count"] == 2
    cluster.admit(CORE).place(work="a a")
    up(cluster)
    assert (cluster.status["admitted"], len(cluster.pods)) == ({"work": 2}, 2)
    assert cluster.states() == {CORE: "admitted", "x-work-x0": "queued", "x-work-x1": "queued"}
    cluster.admit("x-work-x0").settle()
    assert cluster.status["admitted"] == {"work": 3}  # the allocator reads it there
    cluster.place(work="a a b")
    up(cluster)
    assert len(cluster.pods) == 3
    cluster.evict_workload("x-work-x0").settle().end_deleted().settle()
    up(cluster)
    assert (len(cluster.pods), cluster.status["placement"]) == (2, {"work": ["a", "a"]})
    assert cluster.states()["x-work-x0"] == "queued"


def requested(names: str) -> QueuedCluster:
    """A job with a coordinator that requests these collectors."""
    pod = {"template": {"spec": {"containers": [{"name": "di-container", "image": "train:1"}]}}}
    replicas = [{"name": f"x-collector-{name}", "role": "collector"} for name in names]
    body = queued(job())
    body["spec"] = {
        "suspend": True,
        "coordinated": {"coordinator": pod, "collector": pod, "replicas": replicas},
    }
    return QueuedCluster(body).settle()


def test_what_a_coordinator_asks_for_is_admitted_one_by_one() -> None:
    cluster = requested("abc")
    assert [each["name"] for each in cluster.workloads[CORE]["spec"]["podSets"]] == ["coordinator"]
    cluster.admit(CORE)
    up(cluster)
    assert ([*cluster.pods], cluster.phase) == (["x-coordinator"], "Running")
    # The first one finds the flavor that all others go to.
    assert cluster.states() == {CORE: "admitted", "x-collector-x0": "queued"}
    cluster.admit("x-collector-x0")
    up(cluster)
    assert [*cluster.pods] == ["x-coordinator", "x-collector-a"]
    cluster.admit("x-collector-x1")
    up(cluster)
    cluster.evict_workload("x-collector-x0").settle().end_deleted().settle()
    assert [*cluster.pods] == ["x-coordinator", "x-collector-a"]
    assert (cluster.states()["x-collector-x0"], cluster.phase) == ("queued", "Running")


def test_a_replica_of_a_coordinator_that_lost_its_labels_uses_quota() -> None:
    cluster = requested("ab")
    cluster.admit(CORE).settle()
    for name in ("x-collector-x0", "x-collector-x1"):
        cluster.admit(name)
        up(cluster)
    coordinated = cluster.job["spec"]["coordinated"]
    cluster.edit(coordinated={**coordinated, "replicas": coordinated["replicas"][:1]}).settle()
    del cluster.pods["x-collector-b"]["metadata"]["labels"]
    cluster.settle()
    assert cluster.states()["x-collector-x1"] == "admitted"
    cluster.end_deleted().settle()
    assert [*cluster.states()] == [CORE, "x-collector-x0"]
