"""Standby pods: they take the places of lost replicas, also if the operator crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.job_types.tasks.standbys import MADE_ANEW_AFTER
from di_operator.lifecycle.write_errors import QuotaExceeded
from tests.unit.lifecycle.cluster_model import SETTINGS, ClusterModel, job, running, task
from tests.unit.lifecycle.kubelet_model import Object

FIRST, SECOND = "x-work-0", "x-work-1"
BY, NEXT = "x-work-standby-0", "x-work-standby-1"
GROUP: Object = {"elastic": True, "lastCallSeconds": 60, "deadlineSeconds": 600}
LOSSES = ("failed", "evicted", "deleted", "gone")


def work(replicas: int = 2, standby: int = 1, **fields: Any) -> Object:
    return task("work", replicas, **{"standby": standby, **fields})


def warm(*others: Object, of: Object | None = None, **spec: Any) -> ClusterModel:
    """A job that runs, with all its pods that stand by ready."""
    return running(work(**(of or {})), *others, **spec).run().settle()


def notes(cluster: ClusterModel, name: str) -> Object:
    found: Object = cluster.pods[name]["metadata"]["annotations"]
    return found


def labels(cluster: ClusterModel, name: str) -> Object:
    found: Object = cluster.pods[name]["metadata"]["labels"]
    return found


def places(cluster: ClusterModel) -> Object:
    found: Object = cluster.status.get("standIns", {})
    return found


def ranks(cluster: ClusterModel) -> dict[str, str]:
    """The ranks of the pods that are not to go."""
    return {
        name: pod["metadata"]["annotations"]["diengine/rank"]
        for name, pod in cluster.pods.items()
        if "deletionTimestamp" not in pod["metadata"]
        and "diengine/rank" in pod["metadata"]["annotations"]
    }


def made(cluster: ClusterModel, name: str) -> int:
    return cluster.writes.count(f"create Pod {name}")


# --- standing by ---


@pytest.mark.proves("roles.md#warm-stand-by/the-next-one")
def test_standby_pods_are_made_after_all_pods_of_the_job() -> None:
    cluster = ClusterModel(job(work(), task("evaluator", dependsOn=["work"]))).settle()
    assert set(cluster.pods) == {FIRST, SECOND}
    cluster.run().settle()
    assert set(cluster.pods) == {FIRST, SECOND, BY, "x-evaluator-0"}
    started = cluster.writes.index("create Pod x-evaluator-0")
    assert "status" in cluster.writes[started : cluster.writes.index(f"create Pod {BY}")]
    # The job waits for none of them.
    cluster.run("x-evaluator-0").settle()
    assert cluster.phase == "Running"
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (3, 3)
    assert cluster.status["taskStatus"]["work"] == {"Running": 2}
    assert "standIns" not in cluster.status


@pytest.mark.proves("roles.md#warm-stand-by/while-it-stands-by")
def test_a_standby_pod_has_no_rank_and_a_standby_label() -> None:
    cluster = warm()
    env = cluster.env(BY)
    assert (env["DI_STANDBY"], env["DI_TASK_NAME"]) == ("true", "work")
    assert not {"DI_RANK", "DI_TASK_RANK"} & set(env)
    assert not {"diengine/rank", "diengine/task-rank"} & set(notes(cluster, BY))
    assert labels(cluster, BY)["diengine/standby"] == "true"
    spec = cluster.pods[BY]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == (BY, "di-x")
    assert "DI_STANDBY" not in cluster.env(FIRST)
    assert "diengine/standby" not in labels(cluster, FIRST)


def test_there_are_as_many_standby_pods_as_requested() -> None:
    cluster = warm(of={"standby": 3})
    assert {name for name in cluster.pods if "standby" in name} == {BY, NEXT, "x-work-standby-2"}
    cluster.delete_pod(NEXT, force=True).settle()
    assert made(cluster, NEXT) == 2


# --- taking a place ---


@pytest.mark.proves(
    "lifecycle.md#places-that-were-taken",
    "roles.md#warm-stand-by/when-it-takes-a-place",
    "dijob.md#spec-tasks/standby",
    "events.md#of-its-life/standin",
)
@pytest.mark.parametrize("how", LOSSES)
def test_a_standby_pod_takes_the_place_of_a_lost_replica(how: str) -> None:
    cluster = warm()
    before = cluster.uids
    cluster.lose(SECOND, how)
    writes = len(cluster.writes)
    cluster.reconcile()
    # One write for the count and the place, before anything else.
    assert (cluster.writes[writes:], places(cluster)) == (["status"], {"work": {"1": BY}})
    restarts, reschedules = cluster.status["restarts"], cluster.status["reschedules"]
    assert (restarts, reschedules) == ((1, 0) if how == "failed" else (0, 1))
    cluster.settle()
    # Nothing has started meanwhile.
    assert (cluster.phase, cluster.status["readyReplicas"]) == ("Running", 2)
    assert (cluster.uids[BY], cluster.uids[FIRST]) == (before[BY], before[FIRST])
    cluster.end_deleted().settle()
    assert set(cluster.pods) == {FIRST, BY, NEXT}
    assert (made(cluster, SECOND), made(cluster, NEXT)) == (1, 1)
    assert cluster.counts == (restarts, reschedules)


@pytest.mark.proves(
    "roles.md#warm-stand-by/a-program-without-any-of-these",
    "roles.md#warm-stand-by/pods-that-are-made-later",
)
def test_a_standby_pod_is_promoted_beside_a_task_without_any() -> None:
    cluster = running(task("learner"), work()).run().settle().fail(SECOND)
    cluster.reconcile()
    assert places(cluster) == {"work": {"1": BY}}


def test_a_promoted_pod_gets_its_rank_and_the_others_keep_theirs() -> None:
    cluster = warm().fail(SECOND).settle()
    told = notes(cluster, BY)
    assert (told["diengine/rank"], told["diengine/task-rank"]) == ("1", "1")
    assert "diengine/standby" not in labels(cluster, BY)
    assert ranks(cluster) == {FIRST: "0", BY: "1"}
    (event,) = [each for each in cluster.events if each.reason == "StandIn"]
    assert event.message == f"{BY} has taken the place of {SECOND}"
    # Pods that are made from then on know where it is.
    cluster.fail(FIRST).settle()
    nodes = cluster.env(FIRST)["DI_WORK_NODES"].split(",")
    assert [node.partition(".")[0] for node in nodes] == [FIRST, BY]


@pytest.mark.proves("roles.md#warm-stand-by/clients-of-a-service")
def test_a_promoted_pod_is_behind_the_service() -> None:
    cluster = warm(of={"service": {"ports": [{"name": "http", "port": 80}]}})
    assert "diengine/in-service" not in labels(cluster, BY)
    cluster.fail(SECOND).settle()
    assert labels(cluster, BY)["diengine/in-service"] == "true"
    cluster.objects["Pod", BY]["metadata"]["labels"].pop("diengine/in-service")
    cluster.settle()
    assert labels(cluster, BY)["diengine/in-service"] == "true"


@pytest.mark.proves("roles.md#warm-stand-by/members-of-a-process-group-that-is")
def test_a_promoted_pod_completes_the_group_at_once() -> None:
    cluster = warm(of={"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4})
    group = cluster.status["groups"]["work"]
    assert (group["generation"], sorted(group["members"])) == (1, ["0", "1"])
    cluster.fail(SECOND).settle()
    group = cluster.status["groups"]["work"]
    assert (group["generation"], group["state"]) == (2, "Formed")
    assert group["members"]["1"] == cluster.uids[BY]
    file = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.work"])
    assert file["members"] == [0, 1]
    domain = "di-x.rl.svc.cluster.local"
    assert file["addresses"] == [f"{FIRST}.{domain}", f"{BY}.{domain}"]
    cluster.run(NEXT).fail(FIRST).settle()
    file = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.work"])
    assert (file["generation"], file["masterAddress"]) == (3, f"{NEXT}.{domain}")
    assert file["addresses"] == [f"{NEXT}.{domain}", f"{BY}.{domain}"]


def test_a_group_file_without_standby_pods_has_no_addresses() -> None:
    group = {"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4}
    cluster = running(task("work", 2, **group))
    file = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.work"])
    assert set(file) == {"generation", "state", "worldSize", "masterAddress", "members"}


def test_each_standby_pod_takes_one_place() -> None:
    cluster = warm(of={"replicas": 3, "standby": 2}).fail(FIRST, SECOND, "x-work-2")
    cluster.reconcile()
    assert places(cluster) == {"work": {"0": BY, "1": NEXT}}
    cluster.settle()
    assert set(cluster.pods) >= {BY, NEXT, "x-work-2"}
    cluster.run().settle()
    assert (cluster.phase, sorted(ranks(cluster).values())) == ("Running", ["0", "1", "2"])


@pytest.mark.proves("roles.md#warm-stand-by/when-none-is-ready")
def test_without_a_ready_standby_pod_the_replica_is_made_again() -> None:
    cluster = running(work()).say(BY).fail(SECOND).settle()
    assert (places(cluster), made(cluster, SECOND)) == ({}, 2)
    assert BY in cluster.pods


def test_a_standby_pod_replaces_a_pod_that_does_not_end() -> None:
    cluster = running(work()).say(BY).delete_pod(SECOND).settle()
    assert cluster.phase == "Rescheduling"
    cluster.run(BY).settle()
    assert (places(cluster), cluster.phase) == ({"work": {"1": BY}}, "Running")
    assert cluster.status["reschedules"] == 1
    # It is still there, and so is its rank; they are two for a while.
    assert SECOND in cluster.ending
    assert notes(cluster, BY)["diengine/rank"] == "1"


@pytest.mark.proves("lifecycle.md#places-that-were-taken", "roles.md#warm-stand-by/from-then-on")
def test_a_promoted_pod_is_a_replica_like_any_other() -> None:
    cluster = warm().fail(SECOND).settle().run(NEXT).settle()
    cluster.fail(BY).reconcile()
    assert (cluster.status["restarts"], places(cluster)) == (2, {"work": {"1": NEXT}})
    cluster.settle()
    # The name is free for another.
    assert (set(cluster.pods), made(cluster, BY)) == ({FIRST, NEXT, BY}, 2)
    assert ranks(cluster) == {FIRST: "0", NEXT: "1"}


@pytest.mark.parametrize("how", LOSSES)
def test_without_a_ready_standby_pod_the_replica_gets_its_own_pod_again(how: str) -> None:
    cluster = warm().fail(SECOND).settle()
    cluster.lose(BY, how)
    cluster.settle().end_deleted().settle()
    assert (places(cluster), made(cluster, SECOND)) == ({}, 2)
    cluster.run().settle().settle()
    assert cluster.phase == "Running"
    assert {FIRST, SECOND} <= set(cluster.pods)
    assert ranks(cluster) == {FIRST: "0", SECOND: "1"}
    assert sum("standby" in name for name in cluster.pods) == 1


def test_an_unseen_standby_pod_keeps_its_place_until_known_gone() -> None:
    cluster = warm().fail(SECOND)
    seen = cluster.reconcile()
    assert (places(cluster), seen.from_absence) == ({"work": {"1": BY}}, False)
    # Of the world before the job nothing tells that one from a pod that was deleted.
    blind = decide(cluster.snapshot([]), cluster.now, SETTINGS)
    assert blind.status is not None
    assert "standIns" not in blind.status
    assert blind.from_absence


# --- what does not go ---


def test_no_standby_pod_is_promoted_when_the_task_restarts() -> None:
    cluster = warm(failurePolicy={"rules": [{"action": "RestartTask"}]})
    before = cluster.uids
    cluster.fail(SECOND).settle().end_deleted().settle()
    cluster.end_deleted().settle()
    assert places(cluster) == {}
    cluster.run().settle().end_deleted().settle()
    after = cluster.uids
    assert after.keys() == before.keys()
    # Also those that stand by: they would be outdated wherever they came.
    assert not set(after.values()) & set(before.values())


def test_no_standby_pod_is_promoted_when_memory_grows() -> None:
    container = {
        "name": "di-container",
        "image": "train:1",
        "resources": {"limits": {"memory": "1Gi"}},
    }
    rule = {"onReasons": ["OOMKilled"], "action": "Restart", "growMemory": {"factor": 2}}
    cluster = warm(
        of={"template": {"spec": {"containers": [container]}}}, failurePolicy={"rules": [rule]}
    )
    cluster.fail(SECOND, code=137, reason="OOMKilled").settle()
    assert (places(cluster), made(cluster, SECOND)) == ({}, 2)
    assert "standby" not in str(cluster.status["failures"])


def test_no_standby_pod_is_promoted_on_an_avoided_node() -> None:
    rule = {"action": "Restart", "avoidNode": True}
    cluster = warm(of={"standby": 2}, failurePolicy={"rules": [rule]})
    for name, node in ((SECOND, "bad"), (BY, "bad"), (NEXT, "good")):
        cluster.objects["Pod", name]["spec"]["nodeName"] = node
    cluster.fail(SECOND).reconcile()
    assert places(cluster) == {"work": {"1": NEXT}}


def test_a_promotion_waits_for_the_backoff_of_its_replica() -> None:
    cluster = warm(of={"backoffLimit": "Unlimited", "standby": 2}).fail(SECOND).settle()
    assert places(cluster) == {"work": {"1": BY}}
    cluster.run().settle().fail(BY).settle()
    assert places(cluster) == {}
    assert SECOND not in cluster.pods
    cluster.wait(10)
    assert places(cluster)["work"]["1"].startswith("x-work-standby-")
    cluster.settle()
    assert cluster.phase == "Running"


# --- scaling ---


def test_standby_pods_become_added_replicas_first() -> None:
    cluster = warm().scale("work", 4)
    cluster.reconcile()
    assert places(cluster) == {"work": {"2": BY}}
    cluster.settle()
    assert (made(cluster, "x-work-3"), made(cluster, "x-work-2")) == (1, 0)
    cluster.run().settle()
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 1)
    assert sorted(ranks(cluster).values()) == ["0", "1", "2", "3"]


def test_a_promoted_pod_that_is_scaled_away_is_deleted() -> None:
    cluster = warm().scale("work", 3).settle().run().settle()
    assert places(cluster) == {"work": {"2": BY}}
    uid = cluster.uids[BY]
    cluster.scale("work", 2).settle().end_deleted().settle()
    cluster.settle()
    assert places(cluster) == {}
    assert uid not in set(cluster.uids.values())
    assert sum("standby" in name for name in cluster.pods) == 1


def test_a_promoted_pod_drains_before_it_is_deleted() -> None:
    service = {"service": {"ports": [{"name": "http", "port": 80}]}}
    drain = {"drain": {"path": "/drain", "port": 80}}
    cluster = warm(of={**service, **drain}).scale("work", 3).settle().run().settle()
    cluster.scale("work", 2).reconcile()
    cluster.reconcile()
    assert "diengine/in-service" not in labels(cluster, BY)
    assert "diengine/left-service" in notes(cluster, BY)
    assert BY not in cluster.ending
    cluster.wait(4)
    assert BY in cluster.ending


# --- when they themselves are in trouble ---


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_standby_pod_is_no_failure_and_no_reschedule(how: str) -> None:
    cluster = warm(backoffLimit=0)
    uid, phases = cluster.uids[BY], len(cluster.phases)
    cluster.lose(BY, how)
    cluster.settle().wait(MADE_ANEW_AFTER).end_deleted().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))
    assert not {*cluster.phases[phases:]} - {"Running"}
    assert "failures" not in cluster.status
    assert sum("standby" in name for name in cluster.pods) == 1
    assert uid not in set(cluster.uids.values())


@pytest.mark.proves("events.md#of-its-life/standbyfailed")
def test_a_failed_standby_pod_is_reported_and_made_again_later() -> None:
    cluster = warm().fail(BY, code=7).settle()
    assert cluster.decide().requeue_after == MADE_ANEW_AFTER
    cluster.wait(MADE_ANEW_AFTER - 1)
    assert {name for name in cluster.pods if "standby" in name} == {BY}
    cluster.wait(1)
    assert {name for name in cluster.pods if "standby" in name} == {NEXT}
    (event,) = [each for each in cluster.events if each.reason == "StandbyFailed"]
    assert event.message.startswith(f"pod {BY}, which stands by, failed: ")


def test_a_standby_pod_that_succeeded_is_not_made_again() -> None:
    cluster = warm().succeed(BY).settle()
    for _ in range(10):
        cluster.wait(100)
    assert (made(cluster, BY), made(cluster, NEXT)) == (1, 0)


def test_a_quota_refusal_of_a_standby_pod_leaves_the_job_running() -> None:
    cluster = ClusterModel(job(work())).settle().delete_pod(BY, force=True).run()
    cluster.refuse_pods = QuotaExceeded(message="no room")
    for _ in range(5):
        cluster.wait(10)
    assert cluster.phase == "Running"
    assert cluster.condition("Running")["reason"] == "QuotaExceeded"
    cluster.refuse_pods = None
    cluster.wait(10)
    assert BY in cluster.pods


def test_an_unschedulable_standby_pod_is_reported_and_blocks_nothing() -> None:
    cluster = ClusterModel(job(work(), pendingTimeoutSeconds=60)).settle()
    cluster.run(FIRST, SECOND).refuse(BY, "0/3 nodes are available").wait(10).wait(100)
    said = cluster.condition("Running")
    assert (said["status"], said["reason"]) == ("True", "Unschedulable")
    assert said["message"] == f"1 of 3 pods cannot run, {BY} first: 0/3 nodes are available"
    cluster.run(BY).wait(10)
    assert cluster.condition("Running")["reason"] == "JobRunning"
