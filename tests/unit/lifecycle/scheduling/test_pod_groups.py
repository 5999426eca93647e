"""Replicas of several pods: their variables, and that they are made and deleted as one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task

DOMAIN = "di-x.rl.svc.cluster.local"
ROLLOUT = ("x-rollout-0-0", "x-rollout-0-1", "x-rollout-1-0", "x-rollout-1-1")
FIRST, SECOND = set(ROLLOUT[:2]), set(ROLLOUT[2:])
COUNTED = {"failurePolicy": {"replicaBackoffLimit": 2}}


def rollout(replicas: int = 2, **fields: Any) -> dict[str, Any]:
    return task("rollout", replicas, podsPerReplica=2, **fields)


SERVICE: dict[str, Any] = {"ports": [{"name": "http", "port": 80}]}


def behind(cluster: ClusterModel) -> set[str]:
    """The pods that the Service of the task selects."""
    marks = cluster.objects["Service", "x-rollout"]["spec"]["selector"].items()
    return {
        name for name, pod in cluster.pods.items() if marks <= pod["metadata"]["labels"].items()
    }


def uids(cluster: ClusterModel) -> dict[str, str]:
    return cluster.uids


def settled(cluster: ClusterModel) -> set[str]:
    """Deleted pods end, all pods become ready; the names of those that are not what they were."""
    before = uids(cluster)
    for _ in range(3):
        cluster.settle()
        cluster.end_deleted()
    cluster.settle().run().settle()
    after = uids(cluster)
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


@pytest.mark.proves("roles.md#a-replica-of-several-pods/di-replica-*")
def test_a_pod_knows_its_replica_and_its_place_in_it() -> None:
    cluster = running(task("learner"), rollout())
    assert set(cluster.pods) == {"x-learner-0", *ROLLOUT}
    told = cluster.env("x-rollout-1-1")
    assert {name: told[name] for name in told if "REPLICA" in name} == {
        "DI_REPLICA_INDEX": "1",
        "DI_REPLICA_RANK": "1",
        "DI_REPLICA_SIZE": "2",
        "DI_REPLICA_LEADER": f"x-rollout-1-0.{DOMAIN}",
    }
    assert not [name for name in cluster.env("x-learner-0") if "REPLICA" in name]


@pytest.mark.proves("roles.md#a-replica-of-several-pods/ranks-di-nodes-status-replicas")
def test_ranks_are_those_of_pods() -> None:
    cluster = running(task("learner"), rollout())
    nodes = [f"{name}.{DOMAIN}" for name in ("x-learner-0", *ROLLOUT)]
    for name in cluster.pods:
        told = cluster.env(name)
        assert told["DI_NODES"].split(",") == nodes
        assert told["DI_NODES"].split(",")[int(told["DI_RANK"])] == f"{name}.{DOMAIN}"
        assert told["DI_ROLLOUT_NODES"].split(",") == nodes[1:]
    assert [cluster.env(name)["DI_TASK_RANK"] for name in ROLLOUT] == ["0", "1", "2", "3"]
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (5, 5)


def test_the_processes_of_a_replica_are_a_group() -> None:
    cluster = running(rollout(processGroup={"framework": "torch"}))
    told = cluster.env("x-rollout-1-1")
    assert (told["WORLD_SIZE"], told["RANK"]) == ("2", "1")
    assert told["MASTER_ADDR"] == f"x-rollout-1-0.{DOMAIN}"


def test_a_process_group_of_one_replica_has_no_group_file() -> None:
    cluster = running(rollout(processGroup={"framework": "torch"}))
    assert "groups" not in cluster.status
    assert not [kind for kind, _ in cluster.objects if kind == "ConfigMap"]
    assert "DI_GROUP_FILE" not in cluster.env("x-rollout-0-0")


@pytest.mark.proves("dijob.md#spec-tasks/service-select")
@pytest.mark.parametrize(
    ("select", "listed"), [("All", {*ROLLOUT}), ("Leaders", {"x-rollout-0-0", "x-rollout-1-0"})]
)
def test_a_service_lists_all_pods_or_the_leaders(select: str, listed: set[str]) -> None:
    cluster = running(task("learner"), rollout(service={**SERVICE, "select": select}))
    cluster.settle()
    assert behind(cluster) == listed


def test_a_replica_is_behind_its_service_while_all_pods_are_ready() -> None:
    cluster = ClusterModel(job(rollout(service={**SERVICE, "select": "Leaders"})))
    cluster.settle().run("x-rollout-0-0", "x-rollout-1-0", "x-rollout-1-1").settle()
    assert behind(cluster) == {"x-rollout-1-0"}
    cluster.run("x-rollout-0-1").settle()
    assert behind(cluster) == {"x-rollout-0-0", "x-rollout-1-0"}
    for condition in cluster.pods["x-rollout-1-1"]["status"]["conditions"]:
        condition["status"] = "False"
    cluster.settle()
    assert behind(cluster) == {"x-rollout-0-0"}
    assert not [event for event in cluster.events if "Restored" in str(event)]


@pytest.mark.parametrize("writes", range(5))
def test_an_operator_that_dies_meanwhile_leaves_no_replica_out(writes: int) -> None:
    cluster = ClusterModel(job(rollout(service=SERVICE))).settle().run()
    with suppress(Crash):
        cluster.reconcile(crash_after=writes)
    cluster.settle()
    assert behind(cluster) == {*ROLLOUT}


def test_a_replica_that_is_scaled_away_leaves_and_is_asked_by_its_leader() -> None:
    drain = {"path": "/drain", "port": 80}
    leaders = {**SERVICE, "select": "Leaders"}
    cluster = running(rollout(service=leaders, drain=drain)).settle()
    cluster.scale("rollout", 1).settle()
    assert behind(cluster) == {"x-rollout-0-0"}


@pytest.mark.proves(
    "roles.md#a-leader-that-is-different", "dijob.md#spec-tasks/leadertemplatepatch"
)
def test_a_leader_is_made_from_the_template_that_is_patched() -> None:
    patch = {"spec": {"containers": [{"name": "di-container", "args": ["--serve"]}]}}
    cluster = running(rollout(leaderTemplatePatch=patch))
    args = {name: pod["spec"]["containers"][0].get("args") for name, pod in cluster.pods.items()}
    assert args == {name: ["--serve"] if name.endswith("-0") else None for name in ROLLOUT}
    images = {pod["spec"]["containers"][0]["image"] for pod in cluster.pods.values()}
    assert images == {"train:1"}


def test_the_job_runs_when_all_pods_of_all_replicas_are_ready() -> None:
    cluster = ClusterModel(job(rollout())).settle().run(*ROLLOUT[:3]).settle()
    assert cluster.phase == "Starting"
    cluster.run().settle()
    assert cluster.phase == "Running"


@pytest.mark.proves("roles.md#a-replica-of-several-pods/dependson-pendingtimeoutseconds")
def test_others_wait_for_all_pods_of_a_replica() -> None:
    cluster = ClusterModel(job(rollout(1), task("evaluator", dependsOn=["rollout"])))
    cluster.settle().run("x-rollout-0-0").settle()
    assert "x-evaluator-0" not in cluster.pods
    cluster.run().settle()
    assert "x-evaluator-0" in cluster.pods


def test_success_is_that_of_all_pods() -> None:
    cluster = running(rollout()).succeed(*ROLLOUT[:3]).settle()
    assert cluster.phase == "Running"
    cluster.succeed().settle()
    assert cluster.phase == "Succeeded"


@pytest.mark.proves(
    "roles.md#a-replica-of-several-pods/replicas-minreplicas-maxreplicas-scaling",
    "dijob.md#spec-tasks/podsperreplica",
)
def test_scaling_adds_and_takes_whole_replicas() -> None:
    cluster = running(task("learner"), rollout()).scale("rollout", 3)
    added = {"x-rollout-2-0", "x-rollout-2-1"}
    assert (settled(cluster), cluster.env("x-rollout-2-1")["DI_RANK"]) == (added, "6")
    (told,) = (each for each in cluster.events if each.reason == "JobRescheduling")
    assert told.message == "replicas changed: rollout from 2 to 3"
    cluster.scale("rollout", 1)
    assert (settled(cluster), cluster.phase) == (SECOND | added, "Running")
    assert cluster.counts == (0, 2)
    assert "replicaAttempts" not in cluster.status


@pytest.mark.proves(
    "lifecycle.md#restarting-a-whole-replica",
    "roles.md#a-replica-of-several-pods/a-failure-and-what-is-counted-of-it",
)
def test_a_failed_pod_replaces_its_whole_replica_and_no_other() -> None:
    cluster = running(task("learner"), rollout(), **COUNTED).fail("x-rollout-0-1")
    assert (settled(cluster), cluster.phase, cluster.counts) == (FIRST, "Running", (1, 0))
    assert cluster.status["replicaAttempts"] == {"rollout": {"0": 1}}
    failures = cluster.status["replicaFailures"]
    assert {task: {i: r["restarts"] for i, r in failures[task].items()} for task in failures} == {
        "rollout": {"0": 1}
    }
    assert cluster.env("x-rollout-0-1")["DI_RANK"] == "2"


def test_pods_of_a_replica_that_fail_together_count_once() -> None:
    cluster = running(rollout(), **COUNTED)
    cluster.fail("x-rollout-0-0", "x-rollout-0-1", "x-rollout-1-1")
    assert (settled(cluster), cluster.counts) == ({*ROLLOUT}, (1, 0))
    failures = cluster.status["replicaFailures"]["rollout"]
    assert {index: record["restarts"] for index, record in failures.items()} == {"0": 1, "1": 1}


def test_the_rest_of_a_replica_that_fails_later_does_not_count() -> None:
    cluster = running(rollout(), **COUNTED).fail("x-rollout-0-1")
    cluster.reconcile()
    cluster.fail("x-rollout-0-0")
    assert (settled(cluster), cluster.counts) == (FIRST, (1, 0))
    assert cluster.status["replicaFailures"]["rollout"]["0"]["restarts"] == 1


def test_a_succeeded_pod_is_replaced_with_its_replica() -> None:
    cluster = running(rollout()).succeed("x-rollout-0-0").fail("x-rollout-0-1")
    assert settled(cluster) == FIRST


def test_no_new_pod_of_a_replica_is_made_before_the_last_old_one_is_gone() -> None:
    cluster = running(rollout()).fail("x-rollout-0-1").settle()
    assert (set(cluster.pods), cluster.phase) == ({"x-rollout-0-0", *SECOND}, "Restarting")
    cluster.end("x-rollout-0-0").settle()
    assert set(cluster.pods) == {*ROLLOUT}


@pytest.mark.proves("roles.md#a-replica-of-several-pods/a-pod-that-is-evicted-deleted-or-moved")
@pytest.mark.parametrize("how", ["evicted", "deleted", "gone"])
def test_a_pod_that_is_lost_takes_its_replica_along_uncounted(how: str) -> None:
    cluster = running(task("learner"), rollout(), **COUNTED)
    if how == "evicted":
        cluster.evict("x-rollout-1-0")
    else:
        cluster.delete_pod("x-rollout-1-0", force=how == "gone")
    assert (settled(cluster), cluster.counts) == (SECOND, (0, 1))
    found = cluster.status.get("replicaFailures", {}).get("rollout", {}).get("1", {})
    assert found.get("restarts", 0) == 0
    assert cluster.status["replicaAttempts"] == {"rollout": {"1": 1}}


def test_a_replica_may_be_lost_again_and_be_scaled_away() -> None:
    cluster = running(rollout())
    for attempt in (1, 2):
        cluster.evict("x-rollout-1-1").settle().pass_time(10)
        assert settled(cluster) == SECOND
        assert cluster.status["replicaAttempts"] == {"rollout": {"1": attempt}}
    cluster.scale("rollout", 1)
    settled(cluster)
    cluster.scale("rollout", 2)
    assert (settled(cluster), cluster.phase) == (SECOND, "Running")


def test_a_replica_that_used_its_restarts_fails_the_job() -> None:
    cluster = running(rollout(), **COUNTED)
    for _ in range(2):
        cluster.fail("x-rollout-0-1")
        settled(cluster)
    cluster.fail("x-rollout-0-0").settle()
    assert cluster.phase == "Failed"
    message = cluster.condition("Failed")["message"]
    assert message.startswith("replica x-rollout-0 has used its 2 restarts (replicaBackoffLimit 2)")


def test_a_replica_waits_for_its_backoff_as_a_whole() -> None:
    cluster = running(rollout(backoffLimit="Unlimited")).fail("x-rollout-0-1")
    settled(cluster)
    cluster.fail("x-rollout-0-0").reconcile()
    assert "x-rollout-0 is created again after 10 s" in cluster.condition("Restarting")["message"]
    cluster.reconcile()
    cluster.end("x-rollout-0-1").reconcile()
    assert set(cluster.pods) == SECOND


def test_memory_that_one_pod_needed_all_pods_of_its_replica_get() -> None:
    rules = [{"onReasons": ["OOMKilled"], "action": "Restart", "growMemory": {"factor": 2}}]
    container = {"name": "di-container", "image": "train:1"}
    limits = {"resources": {"limits": {"memory": "1Gi"}}}
    template = {"spec": {"containers": [{**container, **limits}]}}
    cluster = running(rollout(template=template), failurePolicy={"rules": rules})
    cluster.fail("x-rollout-0-1", code=137, reason="OOMKilled")
    assert settled(cluster) == FIRST
    memory = {
        name: pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
        for name, pod in cluster.pods.items()
    }
    assert memory == {name: "2Gi" if name in FIRST else "1Gi" for name in ROLLOUT}


def test_a_task_that_restarts_as_a_whole_does_with_all_its_replicas() -> None:
    rules = [{"onExitCodes": {"operator": "In", "values": [3]}, "action": "RestartTask"}]
    cluster = running(rollout(), failurePolicy={"rules": rules})
    cluster.fail("x-rollout-0-1", code=3).settle()
    # One that would be complete waits for the others too.
    for name in FIRST & {*cluster.pods}:
        cluster.end(name)
    cluster.settle()
    assert (set(cluster.pods), settled(cluster)) == (SECOND, {*ROLLOUT})
    assert cluster.phase == "Running"


def test_a_replica_is_ready_with_its_last_pod() -> None:
    cluster = ClusterModel(job(rollout(minReplicas=2), pendingTimeoutSeconds=60))
    cluster.settle().run(*ROLLOUT[:3]).settle()
    assert cluster.condition("BelowMinimum")["message"] == (
        "task rollout has fewer replicas ready than its minimum, 2"
    )
    cluster.run().settle()
    assert cluster.condition("BelowMinimum")["status"] == "False"


@pytest.mark.parametrize("writes", range(1, 12))
def test_a_crash_at_any_write_of_a_replacement_counts_nothing_twice(writes: int) -> None:
    cluster = running(rollout(), **COUNTED).fail("x-rollout-0-1")
    left = writes
    while left > 0:
        before = len(cluster.writes)
        with suppress(Crash):
            cluster.reconcile(crash_after=left)
        left -= max(1, len(cluster.writes) - before)
        cluster.end_deleted()
    settled(cluster)
    assert (cluster.phase, cluster.counts) == ("Running", (1, 0))
    assert cluster.status["replicaAttempts"] == {"rollout": {"0": 1}}
    assert set(cluster.pods) == {*ROLLOUT}


@pytest.mark.parametrize(
    "edited",
    [None, 7, [], {"rollout": 1}, {"rollout": {"x": 1, "-1": 2, "9" * 400: 1}}, {"rollout": {}}],
)
def test_attempts_that_cannot_be_read_count_as_none(edited: object) -> None:
    cluster = running(rollout())
    before = uids(cluster)
    cluster.job["status"]["replicaAttempts"] = edited
    cluster.settle()
    assert uids(cluster) == before
    cluster.evict("x-rollout-0-0")
    assert settled(cluster) == FIRST


def placed(nodes: str) -> ClusterModel:
    cluster = ClusterModel(job(rollout(minReplicas=1, maxReplicas=3), preemptible=True))
    cluster.place(rollout=nodes).settle().run().settle()
    assert cluster.phase == "Running"
    return cluster


def test_the_allocator_places_each_pod_of_a_replica() -> None:
    cluster = placed("a b b c")
    nodes = {
        name: pod["metadata"]["annotations"]["diengine/node"] for name, pod in cluster.pods.items()
    }
    assert nodes == dict(zip(ROLLOUT, "abbc", strict=True))
    cluster.place(rollout="a b")
    assert (settled(cluster), cluster.counts) == (SECOND, (0, 1))


def test_a_replica_with_a_moved_pod_is_replaced() -> None:
    cluster = placed("a b b c").place(rollout="a b b d")
    assert (settled(cluster), cluster.counts) == (SECOND, (0, 1))
    assert cluster.status["replicaAttempts"] == {"rollout": {"1": 1}}


def test_half_a_replica_is_no_place_for_it() -> None:
    assert set(placed("a b b").pods) == FIRST
