"""Pods that stand by: they take the places of replicas that are lost, whoever dies meanwhile."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.faults import QuotaExceeded, TemplateRefused
from di_operator.lifecycle.kinds.tasks.standbys import MADE_ANEW_AFTER
from tests.unit.lifecycle.cluster_model import (
    SETTINGS,
    ClusterModel,
    Crash,
    Object,
    job,
    running,
    task,
)

FIRST, SECOND = "x-work-0", "x-work-1"
BY, NEXT = "x-work-standby-0", "x-work-standby-1"
GROUP: Object = {"elastic": True, "lastCallSeconds": 60, "deadlineSeconds": 600}
LOSSES = ("failed", "evicted", "deleted", "gone")


def work(replicas: int = 2, standby: int = 1, **fields: Any) -> Object:
    return task("work", replicas, **{"standby": standby, **fields})


def warm(*others: Object, of: Object | None = None, **spec: Any) -> ClusterModel:
    """A job that runs, with all its pods that stand by ready."""
    cluster = running(work(**(of or {})), *others, **spec)
    cluster.run()
    cluster.settle()
    return cluster


def lose(cluster: ClusterModel, name: str, how: str) -> None:
    match how:
        case "failed":
            cluster.fail(name)
        case "evicted":
            cluster.evict(name)
        case "deleted":
            cluster.delete_pod(name)
        case _:
            cluster.delete_pod(name, force=True)


def ended(cluster: ClusterModel) -> None:
    """Pods that are deleted end, and what follows is done."""
    for name, pod in tuple(cluster.pods.items()):
        if "deletionTimestamp" in pod["metadata"]:
            cluster.end(name)
    cluster.settle()


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


def test_pods_stand_by_once_the_job_has_all_of_its_own() -> None:
    cluster = ClusterModel(job(work(), task("evaluator", dependsOn=["work"])))
    cluster.settle()
    assert set(cluster.pods) == {FIRST, SECOND}
    cluster.run()
    cluster.settle()
    assert set(cluster.pods) == {FIRST, SECOND, BY, "x-evaluator-0"}
    started = cluster.writes.index("create Pod x-evaluator-0")
    assert "status" in cluster.writes[started : cluster.writes.index(f"create Pod {BY}")]
    # The job waits for none of them.
    cluster.run("x-evaluator-0")
    cluster.settle()
    assert cluster.phase == "Running"
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (3, 3)
    assert cluster.status["taskStatus"]["work"] == {"Running": 2}
    assert "standIns" not in cluster.status


def test_they_have_no_rank_and_say_so() -> None:
    cluster = warm()
    env = cluster.env(BY)
    assert env["DI_STANDBY"] == "true"
    assert env["DI_TASK_NAME"] == "work"
    assert not {"DI_RANK", "DI_TASK_RANK"} & set(env)
    assert not {"diengine/rank", "diengine/task-rank"} & set(notes(cluster, BY))
    assert labels(cluster, BY)["diengine/standby"] == "true"
    spec = cluster.pods[BY]["spec"]
    assert (spec["hostname"], spec["subdomain"]) == (BY, "di-x")
    assert "DI_STANDBY" not in cluster.env(FIRST)
    assert "diengine/standby" not in labels(cluster, FIRST)


def test_there_are_as_many_as_are_asked_for() -> None:
    cluster = warm(of={"standby": 3})
    assert {name for name in cluster.pods if "standby" in name} == {BY, NEXT, "x-work-standby-2"}
    cluster.delete_pod(NEXT, force=True)
    cluster.settle()
    assert made(cluster, NEXT) == 2


# --- taking a place ---


@pytest.mark.parametrize("how", LOSSES)
def test_one_takes_the_place_of_a_replica_that_is_lost(how: str) -> None:
    cluster = warm()
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    lose(cluster, SECOND, how)
    writes = len(cluster.writes)
    cluster.reconcile()
    # One write for the count and the place, before anything else.
    assert cluster.writes[writes:] == ["status"]
    assert places(cluster) == {"work": {"1": BY}}
    restarts, reschedules = cluster.status["restarts"], cluster.status["reschedules"]
    assert (restarts, reschedules) == ((1, 0) if how == "failed" else (0, 1))
    cluster.settle()
    # Nothing has started meanwhile.
    assert cluster.phase == "Running"
    assert cluster.status["readyReplicas"] == 2
    assert cluster.pods[BY]["metadata"]["uid"] == before[BY]
    assert cluster.pods[FIRST]["metadata"]["uid"] == before[FIRST]
    ended(cluster)
    assert set(cluster.pods) == {FIRST, BY, NEXT}
    assert (made(cluster, SECOND), made(cluster, NEXT)) == (1, 1)
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (restarts, reschedules)


def test_it_is_told_its_place_and_the_others_are_where_they_were() -> None:
    cluster = warm()
    cluster.fail(SECOND)
    cluster.settle()
    told = notes(cluster, BY)
    assert (told["diengine/rank"], told["diengine/task-rank"]) == ("1", "1")
    assert "diengine/standby" not in labels(cluster, BY)
    assert ranks(cluster) == {FIRST: "0", BY: "1"}
    (event,) = [each for each in cluster.events if each.reason == "StandIn"]
    assert event.message == f"{BY} has taken the place of {SECOND}"
    # Pods that are made from then on know where it is.
    cluster.fail(FIRST)
    cluster.settle()
    nodes = cluster.env(FIRST)["DI_WORK_NODES"].split(",")
    assert [node.partition(".")[0] for node in nodes] == [FIRST, BY]


def test_it_is_behind_the_service_from_then_on() -> None:
    cluster = warm(of={"service": {"ports": [{"name": "http", "port": 80}]}})
    assert "diengine/in-service" not in labels(cluster, BY)
    cluster.fail(SECOND)
    cluster.settle()
    assert labels(cluster, BY)["diengine/in-service"] == "true"
    cluster.objects["Pod", BY]["metadata"]["labels"].pop("diengine/in-service")
    cluster.settle()
    assert labels(cluster, BY)["diengine/in-service"] == "true"


def test_the_world_is_full_again_with_it_at_once() -> None:
    cluster = warm(of={"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4})
    group = cluster.status["groups"]["work"]
    assert (group["generation"], sorted(group["members"])) == (1, ["0", "1"])
    cluster.fail(SECOND)
    cluster.settle()
    group = cluster.status["groups"]["work"]
    assert (group["generation"], group["state"]) == (2, "Formed")
    assert group["members"]["1"] == cluster.pods[BY]["metadata"]["uid"]
    file = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.work"])
    assert file["members"] == [0, 1]
    domain = "di-x.rl.svc.cluster.local"
    assert file["addresses"] == [f"{FIRST}.{domain}", f"{BY}.{domain}"]
    cluster.run(NEXT)
    cluster.fail(FIRST)
    cluster.settle()
    file = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.work"])
    assert (file["generation"], file["masterAddress"]) == (3, f"{NEXT}.{domain}")
    assert file["addresses"] == [f"{NEXT}.{domain}", f"{BY}.{domain}"]


def test_the_file_of_others_has_no_addresses() -> None:
    group = {"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4}
    cluster = running(task("work", 2, **group))
    file = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.work"])
    assert set(file) == {"generation", "state", "worldSize", "masterAddress", "members"}


def test_each_takes_one_place() -> None:
    cluster = warm(of={"replicas": 3, "standby": 2})
    cluster.fail(FIRST, SECOND, "x-work-2")
    cluster.reconcile()
    assert places(cluster) == {"work": {"0": BY, "1": NEXT}}
    cluster.settle()
    assert set(cluster.pods) >= {BY, NEXT, "x-work-2"}
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    assert sorted(ranks(cluster).values()) == ["0", "1", "2"]


def test_without_one_that_is_ready_the_replica_is_made_anew() -> None:
    cluster = running(work())
    cluster.say(BY)
    cluster.fail(SECOND)
    cluster.settle()
    assert places(cluster) == {}
    assert made(cluster, SECOND) == 2
    assert BY in cluster.pods


def test_one_that_becomes_ready_takes_the_place_of_a_pod_that_does_not_end() -> None:
    cluster = running(work())
    cluster.say(BY)
    cluster.delete_pod(SECOND)
    cluster.settle()
    assert cluster.phase == "Rescheduling"
    cluster.run(BY)
    cluster.settle()
    assert places(cluster) == {"work": {"1": BY}}
    assert cluster.phase == "Running"
    assert cluster.status["reschedules"] == 1
    # It is still there, and so is its rank; they are two for a while.
    assert "deletionTimestamp" in cluster.pods[SECOND]["metadata"]
    assert notes(cluster, BY)["diengine/rank"] == "1"


def test_one_that_took_a_place_is_a_replica_like_any_other() -> None:
    cluster = warm()
    cluster.fail(SECOND)
    cluster.settle()
    cluster.run(NEXT)
    cluster.settle()
    cluster.fail(BY)
    cluster.reconcile()
    assert cluster.status["restarts"] == 2
    assert places(cluster) == {"work": {"1": NEXT}}
    cluster.settle()
    # The name is free for another.
    assert set(cluster.pods) == {FIRST, NEXT, BY}
    assert made(cluster, BY) == 2
    assert ranks(cluster) == {FIRST: "0", NEXT: "1"}


@pytest.mark.parametrize("how", LOSSES)
def test_with_nobody_ready_its_place_is_that_of_a_pod_of_its_own_again(how: str) -> None:
    cluster = warm()
    cluster.fail(SECOND)
    cluster.settle()
    lose(cluster, BY, how)
    cluster.settle()
    ended(cluster)
    assert places(cluster) == {}
    assert made(cluster, SECOND) == 2
    cluster.run()
    cluster.settle()
    cluster.settle()
    assert cluster.phase == "Running"
    assert {FIRST, SECOND} <= set(cluster.pods)
    assert ranks(cluster) == {FIRST: "0", SECOND: "1"}
    assert sum("standby" in name for name in cluster.pods) == 1


def test_of_one_that_is_not_seen_the_place_is_another_s_only_once_it_is_known_to_be_gone() -> None:
    cluster = warm()
    cluster.fail(SECOND)
    seen = cluster.reconcile()
    assert (places(cluster), seen.from_absence) == ({"work": {"1": BY}}, False)
    # Of the world before the job nothing tells that one from a pod that was deleted.
    blind = decide(cluster.snapshot([]), cluster.now, SETTINGS)
    assert blind.status is not None
    assert "standIns" not in blind.status
    assert blind.from_absence


# --- what does not go ---


def test_not_where_the_task_begins_anew_as_a_whole() -> None:
    cluster = warm(failurePolicy={"rules": [{"action": "RestartTask"}]})
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    cluster.fail(SECOND)
    cluster.settle()
    ended(cluster)
    ended(cluster)
    assert places(cluster) == {}
    cluster.run()
    cluster.settle()
    ended(cluster)
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    assert after.keys() == before.keys()
    # Also those that stand by: they would be outdated wherever they came.
    assert not set(after.values()) & set(before.values())


def test_not_where_a_replica_needs_more_memory_than_they_have() -> None:
    container = {
        "name": "di-container",
        "image": "train:1",
        "resources": {"limits": {"memory": "1Gi"}},
    }
    rule = {"onReasons": ["OOMKilled"], "action": "Restart", "growMemory": {"factor": 2}}
    cluster = warm(
        of={"template": {"spec": {"containers": [container]}}}, failurePolicy={"rules": [rule]}
    )
    cluster.fail(SECOND, code=137, reason="OOMKilled")
    cluster.settle()
    assert places(cluster) == {}
    assert made(cluster, SECOND) == 2
    assert "standby" not in str(cluster.status["failures"])


def test_not_from_a_node_that_the_replica_avoids() -> None:
    rule = {"action": "Restart", "avoidNode": True}
    cluster = warm(of={"standby": 2}, failurePolicy={"rules": [rule]})
    for name, node in ((SECOND, "bad"), (BY, "bad"), (NEXT, "good")):
        cluster.objects["Pod", name]["spec"]["nodeName"] = node
    cluster.fail(SECOND)
    cluster.reconcile()
    assert places(cluster) == {"work": {"1": NEXT}}


def test_one_that_fails_again_and_again_is_waited_with_as_ever() -> None:
    cluster = warm(of={"backoffLimit": "Unlimited", "standby": 2})
    cluster.fail(SECOND)
    cluster.settle()
    assert places(cluster) == {"work": {"1": BY}}
    cluster.run()
    cluster.settle()
    cluster.fail(BY)
    cluster.settle()
    assert places(cluster) == {}
    assert SECOND not in cluster.pods
    cluster.wait(10)
    assert places(cluster)["work"]["1"].startswith("x-work-standby-")
    cluster.settle()
    assert cluster.phase == "Running"


# --- scaling ---


def test_added_replicas_are_those_that_stand_by_first() -> None:
    cluster = warm()
    cluster.scale("work", 4)
    cluster.reconcile()
    assert places(cluster) == {"work": {"2": BY}}
    cluster.settle()
    assert made(cluster, "x-work-3") == 1
    assert made(cluster, "x-work-2") == 0
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    assert cluster.status["reschedules"] == 1
    assert sorted(ranks(cluster).values()) == ["0", "1", "2", "3"]


def test_one_that_is_scaled_away_does_not_stand_by_again() -> None:
    cluster = warm()
    cluster.scale("work", 3)
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert places(cluster) == {"work": {"2": BY}}
    uid = cluster.pods[BY]["metadata"]["uid"]
    cluster.scale("work", 2)
    cluster.settle()
    ended(cluster)
    cluster.settle()
    assert places(cluster) == {}
    assert uid not in {pod["metadata"]["uid"] for pod in cluster.pods.values()}
    assert sum("standby" in name for name in cluster.pods) == 1


def test_one_that_leaves_its_service_drains() -> None:
    service = {"service": {"ports": [{"name": "http", "port": 80}]}}
    drain = {"drain": {"path": "/drain", "port": 80}}
    cluster = warm(of={**service, **drain})
    cluster.scale("work", 3)
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.scale("work", 2)
    cluster.reconcile()
    cluster.reconcile()
    assert "diengine/in-service" not in labels(cluster, BY)
    assert "diengine/left-service" in notes(cluster, BY)
    assert "deletionTimestamp" not in cluster.pods[BY]["metadata"]
    cluster.wait(4)
    assert "deletionTimestamp" in cluster.pods[BY]["metadata"]


# --- when they themselves are in trouble ---


@pytest.mark.parametrize("how", LOSSES)
def test_to_lose_one_that_stands_by_is_neither_a_failure_nor_a_reschedule(how: str) -> None:
    cluster = warm(backoffLimit=0)
    uid, phases = cluster.pods[BY]["metadata"]["uid"], len(cluster.phases)
    lose(cluster, BY, how)
    cluster.settle()
    cluster.wait(MADE_ANEW_AFTER)
    ended(cluster)
    assert cluster.phase == "Running"
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (0, 0)
    assert not {*cluster.phases[phases:]} - {"Running"}
    assert "failures" not in cluster.status
    assert sum("standby" in name for name in cluster.pods) == 1
    assert uid not in {pod["metadata"]["uid"] for pod in cluster.pods.values()}


def test_one_that_fails_by_itself_is_told_of_and_made_anew_after_a_while() -> None:
    cluster = warm()
    cluster.fail(BY, code=7)
    cluster.settle()
    assert cluster.decide().requeue_after == MADE_ANEW_AFTER
    cluster.wait(MADE_ANEW_AFTER - 1)
    assert {name for name in cluster.pods if "standby" in name} == {BY}
    cluster.wait(1)
    assert {name for name in cluster.pods if "standby" in name} == {NEXT}
    (event,) = [each for each in cluster.events if each.reason == "StandbyFailed"]
    assert event.message.startswith(f"pod {BY}, which stands by, failed: ")


def test_one_that_succeeded_is_not_needed() -> None:
    cluster = warm()
    cluster.succeed(BY)
    cluster.settle()
    for _ in range(10):
        cluster.wait(100)
    assert made(cluster, BY) == 1
    assert made(cluster, NEXT) == 0


def test_a_quota_that_has_no_room_for_one_leaves_the_job_running() -> None:
    cluster = ClusterModel(job(work()))
    cluster.settle()
    cluster.delete_pod(BY, force=True)
    cluster.run()
    cluster.refuse_pods = QuotaExceeded(message="no room")
    for _ in range(5):
        cluster.wait(10)
    assert cluster.phase == "Running"
    assert cluster.condition("Running")["reason"] == "QuotaExceeded"
    cluster.refuse_pods = None
    cluster.wait(10)
    assert BY in cluster.pods


def test_one_that_finds_no_room_is_told_of_and_keeps_nobody_waiting() -> None:
    cluster = ClusterModel(job(work(), pendingTimeoutSeconds=60))
    cluster.settle()
    cluster.run(FIRST, SECOND)
    cluster.refuse(BY, "0/3 nodes are available")
    cluster.wait(10)
    cluster.wait(100)
    said = cluster.condition("Running")
    assert (said["status"], said["reason"]) == ("True", "Unschedulable")
    assert said["message"] == f"1 of 3 pods cannot run, {BY} first: 0/3 nodes are available"
    cluster.run(BY)
    cluster.wait(10)
    assert cluster.condition("Running")["reason"] == "JobRunning"


def test_a_template_that_is_refused_ends_the_job_as_ever() -> None:
    cluster = ClusterModel(job(work()))
    cluster.refuse_pods = TemplateRefused(message="bad")
    cluster.settle()
    assert cluster.phase == "Failed"


# --- suspension and the end ---


def test_suspended_jobs_have_none() -> None:
    cluster = warm()
    cluster.fail(SECOND)
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    ended(cluster)
    assert not cluster.pods
    cluster.edit(suspend=False)
    cluster.settle()
    assert places(cluster) == {}
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    assert set(cluster.pods) == {FIRST, SECOND, BY}


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_the_end_waits_for_none_of_them_and_leaves_none(policy: str) -> None:
    cluster = warm(cleanPodPolicy=policy)
    cluster.fail(SECOND)
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.succeed(FIRST, BY)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    ended(cluster)
    assert NEXT not in cluster.pods
    assert (BY in cluster.pods) == (policy != "All")


def test_a_success_policy_ends_them_as_well() -> None:
    policy = {"tasks": ["work"], "gracePeriodSeconds": 60}
    cluster = warm(task("evaluator"), successPolicy=policy)
    cluster.succeed(FIRST, SECOND)
    cluster.settle()
    ended(cluster)
    assert cluster.phase == "Succeeded"
    assert BY not in cluster.pods


# --- a status that was edited, and crashes ---


@pytest.mark.parametrize(
    "edited",
    [
        "x",
        {"work": 1},
        {"work": {"1": 7}},
        {"work": {"1": FIRST}},
        {"work": {"1": "x-other-standby-0"}},
        {"work": {"-1": BY, "x": BY, "99999": BY}},
        {"other": {"0": BY}},
    ],
)
def test_what_makes_no_sense_in_the_status_is_none(edited: object) -> None:
    cluster = warm()
    cluster.job["status"]["standIns"] = edited
    cluster._touch(cluster.job)
    writes = len(cluster.writes)
    cluster.settle()
    assert set(cluster.pods) == {FIRST, SECOND, BY}
    assert not [each for each in cluster.writes[writes:] if each != "status"]


def test_a_place_that_was_given_to_two_by_hand_is_put_right() -> None:
    cluster = warm()
    cluster.job["status"]["standIns"] = {"work": {"0": BY, "1": BY}}
    cluster._touch(cluster.job)
    cluster.settle()
    ended(cluster)
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    assert len(set(ranks(cluster).values())) == len(ranks(cluster)) == 2


def test_a_status_that_was_wiped_makes_the_replicas_anew() -> None:
    cluster = warm()
    cluster.fail(SECOND)
    cluster.settle()
    del cluster.job["status"]
    for _ in range(3):
        cluster.settle()
        ended(cluster)
        cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    assert {FIRST, SECOND} == set(ranks(cluster))
    assert len(set(ranks(cluster).values())) == 2


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("writes", range(1, 8))
def test_a_crash_at_any_write_changes_nothing(how: str, writes: int) -> None:
    cluster = warm(of={"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4})
    lose(cluster, SECOND, how)
    left = writes
    while left > 0:
        before = len(cluster.writes)
        with suppress(Crash):
            cluster.reconcile(crash_after=left)
        done = len(cluster.writes) - before
        if not done:
            break
        left -= done
    cluster.settle()
    ended(cluster)
    assert cluster.phase == "Running"
    assert cluster.status["restarts"] + cluster.status["reschedules"] == 1
    assert places(cluster) == {"work": {"1": BY}}
    assert ranks(cluster) == {FIRST: "0", BY: "1"}
    assert set(cluster.pods) == {FIRST, BY, NEXT}
    assert cluster.status["groups"]["work"]["generation"] == 2


STEPS = st.sampled_from(
    ["settle", "reconcile", "crash", "run", "end", "wait", "grow", "shrink", *LOSSES]
)


@given(steps=st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=25))
def test_whatever_happens_each_place_has_one_pod_in_the_end(
    steps: list[tuple[str, int]],
) -> None:
    cluster = warm(backoffLimit=999)
    for step, number in steps:
        _take(cluster, step, number)
    for _ in range(6):
        ended(cluster)
        cluster.run(*(n for n, pod in cluster.pods.items() if pod["status"]["phase"] != "Failed"))
        cluster.wait(MADE_ANEW_AFTER)
        cluster.settle()
    assert cluster.phase == "Running"
    replicas = cluster.job["spec"]["tasks"][0]["replicas"]
    assert len(set(ranks(cluster).values())) == replicas
    served = {f"x-work-{i}" for i in range(replicas)}
    for index, pod in places(cluster).get("work", {}).items():
        served.remove(f"x-work-{index}")
        served.add(pod)
    assert set(ranks(cluster)) == served
    others = set(cluster.pods) - served
    assert len(others) == 1
    assert all(name.startswith("x-work-standby-") for name in others)


def is_ending(cluster: ClusterModel, name: str) -> bool:
    return "deletionTimestamp" in cluster.pods[name]["metadata"]


def is_running(cluster: ClusterModel, name: str) -> bool:
    return cluster.pods[name]["status"]["phase"] == "Running" and not is_ending(cluster, name)


def _take(cluster: ClusterModel, step: str, number: int) -> None:
    names = sorted(cluster.pods)
    chosen = names[number % len(names)] if names else None
    match step:
        case "settle":
            cluster.settle()
        case "reconcile":
            cluster.reconcile()
        case "crash":
            with suppress(Crash):
                cluster.reconcile(crash_after=1 + number % 3)
        case "run":
            waiting = [n for n in names if cluster.pods[n]["status"]["phase"] == "Pending"]
            for name in waiting:
                cluster.run(name)
        case "end":
            for name in filter(lambda name: is_ending(cluster, name), names):
                cluster.end(name)
        case "wait":
            cluster.pass_time(10.0 * number)
        case "grow" | "shrink":
            now = cluster.job["spec"]["tasks"][0]["replicas"]
            cluster.scale("work", min(4, max(1, now + (1 if step == "grow" else -1))))
        case _ if chosen is not None and is_running(cluster, chosen):
            lose(cluster, chosen, step)
