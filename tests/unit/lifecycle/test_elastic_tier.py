"""Elastic tiers: what comes and goes beside a core that keeps running."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.faults import CreateForbidden, QuotaExceeded, TemplateRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task

CORE, FIRST, SECOND = "x-work-0", "x-work-1", "x-work-2"
WORDS = "0/3 nodes are available: 3 node(s) had untolerated taint {spot: gone}."
TARGET = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]


def work(replicas: int = 3, tier: object = None, **fields: Any) -> dict[str, Any]:
    tier = {"priorityClassName": "spot"} if tier is None else tier
    return task("work", replicas, **{"minReplicas": 1, "elastic": tier, **fields})


def tiered(*others: dict[str, Any], of: dict[str, Any] | None = None, **spec: Any) -> ClusterModel:
    """A job that runs, with all of its elastic tier."""
    cluster = running(*others, work(**(of or {})), **spec)
    cluster.run()
    cluster.settle()
    return cluster


def lose(cluster: ClusterModel, name: str, how: str) -> None:
    match how:
        case "preempted":
            cluster.delete_pod(name)
            cluster.objects["Pod", name]["status"]["conditions"] = TARGET
        case "failed by the node":
            cluster._set(name, {"phase": "Failed", "conditions": TARGET})
        case "gone":
            cluster.delete_pod(name, force=True)
        case _:
            cluster.evict(name)


def uids(cluster: ClusterModel) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}


def ended(cluster: ClusterModel) -> None:
    """Deleted pods end, and what follows is done."""
    cluster.settle()
    for name, pod in tuple(cluster.pods.items()):
        if "deletionTimestamp" in pod["metadata"]:
            cluster.end(name)
    cluster.settle()


def counts(cluster: ClusterModel) -> tuple[int, int]:
    return cluster.status["restarts"], cluster.status["reschedules"]


LOSSES = ("preempted", "failed by the node", "evicted", "gone")


# --- how it starts ---


def test_the_core_comes_first_and_the_job_runs_with_it_alone() -> None:
    cluster = ClusterModel(job(work()))
    cluster.settle()
    assert set(cluster.pods) == {CORE, FIRST, SECOND}
    created = [write for write in cluster.writes if write.startswith("create Pod")]
    assert created[0] == f"create Pod {CORE}"
    assert cluster.writes.index("status") < cluster.writes.index(f"create Pod {FIRST}")
    cluster.run(CORE)
    cluster.settle()
    assert cluster.phase == "Running"
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (3, 1)


def test_pods_say_their_tier_and_are_made_from_its_template() -> None:
    patch = {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
    cluster = tiered(of={"tier": {"priorityClassName": "spot", "templatePatch": patch}})
    assert [cluster.env(name)["DI_TIER"] for name in (CORE, FIRST)] == ["core", "elastic"]
    core, first = (cluster.pods[name] for name in (CORE, FIRST))
    assert core["metadata"]["labels"]["diengine/tier"] == "core"
    assert first["metadata"]["labels"]["diengine/tier"] == "elastic"
    assert "tolerations" not in core["spec"]
    assert "priorityClassName" not in core["spec"]
    assert first["spec"]["tolerations"] == patch["spec"]["tolerations"]
    assert first["spec"]["priorityClassName"] == "spot"
    nodes = [f"{name}.di-x.rl.svc.cluster.local" for name in (CORE, FIRST, SECOND)]
    assert {cluster.env(name)["DI_NODES"] for name in cluster.pods} == {",".join(nodes)}


def test_others_say_no_tier() -> None:
    cluster = tiered(task("learner"))
    assert "DI_TIER" not in cluster.env("x-learner-0")
    assert "diengine/tier" not in cluster.pods["x-learner-0"]["metadata"]["labels"]


def test_others_wait_for_the_core_alone() -> None:
    cluster = ClusterModel(job(work(), task("evaluator", dependsOn=["work"])))
    cluster.settle()
    cluster.run(CORE)
    cluster.settle()
    assert "x-evaluator-0" in cluster.pods


def test_one_that_finds_no_room_is_told_of_and_keeps_nobody_waiting() -> None:
    cluster = ClusterModel(job(work(), pendingTimeoutSeconds=60))
    cluster.settle()
    cluster.run(CORE)
    cluster.refuse(FIRST, WORDS)
    cluster.refuse(SECOND, WORDS)
    cluster.wait(10)
    assert cluster.phase == "Running"
    said = cluster.condition("Running")
    assert said["reason"] == "Unschedulable"
    assert said["message"] == f"2 of 3 pods cannot run, {FIRST} first: {WORDS}"
    assert cluster.condition("BelowMinimum")["status"] == "False"
    writes = len(cluster.writes)
    for _ in range(100):
        cluster.wait(100)
    assert cluster.phase == "Running"
    assert len(cluster.writes) == writes
    cluster.run()
    cluster.wait(10)
    assert cluster.condition("Running")["reason"] == "JobRunning"
    assert cluster.status["readyReplicas"] == 3


def test_the_core_is_what_is_short() -> None:
    cluster = tiered(of={"minReplicas": 2}, pendingTimeoutSeconds=600)
    cluster.refuse(FIRST, WORDS)
    cluster.wait(10)
    assert cluster.condition("BelowMinimum")["message"] == (
        "task work has fewer pods ready than its minimum, 2"
    )
    cluster.wait(600)
    assert cluster.phase == "Failed"


def test_a_core_pod_that_cannot_run_is_told_of_first() -> None:
    cluster = ClusterModel(job(work(), task("learner"), pendingTimeoutSeconds=600))
    cluster.settle()
    cluster.run(CORE)
    cluster.refuse("x-learner-0", WORDS)
    cluster.wait(10)
    assert cluster.phase == "Starting"
    assert "x-learner-0 first" in cluster.condition("Starting")["message"]


# --- losses ---


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("rules", [(), ("FailJob",), ("Restart",)])
def test_to_lose_one_is_neither_a_failure_nor_a_reschedule(how: str, rules: tuple[str]) -> None:
    policy = {"failurePolicy": {"rules": [{"action": each} for each in rules]}} if rules else {}
    cluster = tiered(of={"replicas": 2}, backoffLimit=0, **policy)
    before, phases = uids(cluster), len(cluster.phases)
    lose(cluster, FIRST, how)
    ended(cluster)
    assert uids(cluster)[CORE] == before[CORE]
    assert uids(cluster)[FIRST] != before[FIRST]
    assert counts(cluster) == (0, 0)
    assert {*cluster.phases[phases:]} <= {"Running"}
    assert cluster.phase == "Running"


def test_a_loss_is_written_down_and_told_once() -> None:
    cluster = tiered()
    writes = cluster.writes.count("status")
    for name in (FIRST, SECOND):
        lose(cluster, name, "preempted")
    ended(cluster)
    assert [loss["pod"] for loss in cluster.status["failures"]] == [FIRST, SECOND]
    told = [each.message for each in cluster.events if each.reason == "ElasticReplicasLost"]
    assert told == [f"2 replicas of the elastic tier lost, {FIRST} first"]
    # One that says so, and one with other counts of pods.
    assert cluster.writes.count("status") - writes <= 2


def test_losses_in_the_core_are_counted_as_ever() -> None:
    cluster = tiered()
    lose(cluster, CORE, "evicted")
    lose(cluster, FIRST, "evicted")
    cluster.reconcile()
    assert cluster.phase == "Rescheduling"
    assert "1 pod lost, x-work-0 first" in cluster.condition("Rescheduling")["message"]
    ended(cluster)
    cluster.run()
    cluster.settle()
    assert counts(cluster) == (0, 1)
    assert cluster.phase == "Running"
    cluster.settle()
    assert set(cluster.pods) == {CORE, FIRST, SECOND}


def test_one_that_fails_by_itself_is_a_failure() -> None:
    cluster = tiered(backoffLimit=1)
    cluster.fail(FIRST)
    ended(cluster)
    cluster.settle()
    assert counts(cluster) == (1, 0)
    assert cluster.phase == "Running"
    cluster.run()
    cluster.settle()
    cluster.fail(SECOND)
    cluster.settle()
    assert cluster.phase == "Failed"


def test_a_failure_and_a_loss_that_are_seen_together() -> None:
    cluster = tiered(backoffLimit=3)
    cluster.fail(FIRST)
    lose(cluster, SECOND, "evicted")
    ended(cluster)
    cluster.run()
    cluster.settle()
    assert counts(cluster) == (1, 0)
    assert len(cluster.status["failures"]) == 2
    assert set(cluster.pods) == {CORE, FIRST, SECOND}


def test_a_failure_that_a_rule_ignores_is_none() -> None:
    rules = [{"onExitCodes": {"operator": "In", "values": [7]}, "action": "Ignore"}]
    cluster = tiered(backoffLimit=0, failurePolicy={"rules": rules})
    cluster.fail(FIRST, code=7)
    ended(cluster)
    assert counts(cluster) == (0, 0)
    assert cluster.phase == "Running"
    assert FIRST in cluster.pods


def test_one_that_is_lost_again_and_again_is_made_after_growing_pauses() -> None:
    cluster = tiered(of={"replicas": 2})
    pauses = []
    for _ in range(6):
        lose(cluster, FIRST, "evicted")
        ended(cluster)
        began = cluster.now
        while FIRST not in cluster.pods:
            cluster.pass_time(1)
            cluster.reconcile()
        pauses.append(round((cluster.now - began).total_seconds()))
        assert cluster.phase == "Running"
        cluster.run(FIRST)
        cluster.settle()
        cluster.wait(5)
    assert pauses[0] == 0
    assert pauses[1:] == sorted(pauses[1:])
    assert pauses[-1] > 2 * pauses[1] >= 10
    cluster.wait(601)
    lose(cluster, FIRST, "evicted")
    ended(cluster)
    assert FIRST in cluster.pods


def test_a_pod_on_a_lost_node_goes_without_its_kubelet() -> None:
    cluster = tiered()
    lose(cluster, FIRST, "preempted")
    cluster.pods[FIRST]["status"]["reason"] = "NodeLost"
    cluster.settle()
    cluster.wait(61)
    cluster.settle()
    assert "deletionTimestamp" not in cluster.pods[FIRST]["metadata"]
    assert counts(cluster) == (0, 0)


@pytest.mark.parametrize("writes", range(1, 8))
def test_a_crash_at_any_write_counts_nothing(writes: int) -> None:
    cluster = tiered()
    lose(cluster, FIRST, "evicted")
    left = writes
    while left > 0:
        before = len(cluster.writes)
        with suppress(Crash):
            cluster.reconcile(crash_after=left)
        left -= max(1, len(cluster.writes) - before)
    ended(cluster)
    cluster.run()
    cluster.wait(10)
    assert counts(cluster) == (0, 0)
    assert len(cluster.status["failures"]) == 1
    assert cluster.status["readyReplicas"] == 3


def test_a_suspended_job_loses_nothing() -> None:
    cluster = tiered()
    cluster.edit(suspend=True)
    ended(cluster)
    assert not cluster.pods
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert not [each for each in cluster.events if each.reason == "ElasticReplicasLost"]
    assert cluster.status["readyReplicas"] == 3


def test_to_scale_the_tier_is_to_scale_the_job() -> None:
    cluster = tiered()
    cluster.scale("work", 2)
    ended(cluster)
    assert set(cluster.pods) == {CORE, FIRST}
    cluster.scale("work", 4)
    ended(cluster)
    assert set(cluster.pods) == {CORE, FIRST, SECOND, "x-work-3"}
    assert counts(cluster) == (0, 2)
    assert cluster.phase == "Running"


# --- refusals ---


@pytest.mark.parametrize("refusal", [QuotaExceeded, CreateForbidden])
def test_a_refusal_is_told_of_and_leaves_the_job_running(refusal: Any) -> None:
    cluster = ClusterModel(job(work()))
    cluster.reconcile()
    cluster.run()
    cluster.refuse_pods = refusal(message="enough")
    cluster.wait(30)
    assert cluster.phase == "Running"
    said = cluster.condition("Running")
    assert (said["reason"], said["message"]) == (refusal.__name__, "enough")
    writes = len(cluster.writes)
    for _ in range(10):
        assert 0 < (cluster.reconcile().requeue_after or 0) <= 10
    assert len(cluster.writes) == writes
    cluster.refuse_pods = None
    cluster.wait(10)
    assert set(cluster.pods) == {CORE, FIRST, SECOND}
    cluster.wait(10)
    assert cluster.condition("Running")["reason"] == "JobRunning"


def test_a_refusal_of_the_core_keeps_the_job_waiting() -> None:
    cluster = ClusterModel(job(work()))
    cluster.refuse_pods = QuotaExceeded(message="enough")
    cluster.reconcile()
    assert cluster.phase == "Pending"


def test_a_template_that_the_api_server_refuses_ends_the_job() -> None:
    cluster = ClusterModel(job(work()))
    cluster.reconcile()
    cluster.run()
    cluster.refuse_pods = TemplateRefused(message="tolerations: invalid")
    cluster.settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "InvalidTemplate"


# --- the end ---


def test_the_job_has_succeeded_with_its_core_and_those_that_help() -> None:
    cluster = tiered()
    cluster.succeed(CORE)
    cluster.settle()
    assert cluster.phase == "Running"
    cluster.succeed(FIRST)
    cluster.refuse(SECOND, WORDS)
    cluster.settle()
    assert cluster.phase == "Succeeded"
    cluster.settle()
    assert SECOND not in cluster.pods


def test_the_core_has_to_succeed() -> None:
    cluster = tiered()
    cluster.succeed(FIRST, SECOND)
    cluster.settle()
    assert cluster.phase == "Running"


def test_a_success_policy_does_not_wait_for_who_is_not_there() -> None:
    policy = {"tasks": ["work"], "gracePeriodSeconds": 0}
    cluster = tiered(task("evaluator"), successPolicy=policy)
    cluster.refuse(FIRST, WORDS)
    cluster.succeed(CORE)
    cluster.settle()
    assert cluster.phase == "Running"
    cluster.succeed(SECOND)
    cluster.settle()
    assert cluster.phase == "Succeeded"


def test_a_deadline_of_the_task_is_met_by_those_who_are_there() -> None:
    cluster = tiered(task("evaluator"), of={"activeDeadlineSeconds": 1000})
    cluster.refuse(FIRST, WORDS)
    cluster.succeed(CORE, SECOND)
    cluster.wait(2000)
    assert cluster.phase == "Running"


# --- replicas of several pods ---

GROUPS = {"podsPerReplica": 2, "replicas": 2}
CORE_PODS, TIER_PODS = {"x-work-0-0", "x-work-0-1"}, {"x-work-1-0", "x-work-1-1"}


@pytest.mark.parametrize("how", LOSSES)
def test_a_replica_of_several_pods_is_lost_as_a_whole(how: str) -> None:
    cluster = tiered(of=GROUPS)
    assert cluster.env("x-work-1-1")["DI_TIER"] == "elastic"
    before = uids(cluster)
    lose(cluster, "x-work-1-1", how)
    for _ in range(2):
        ended(cluster)
    after = uids(cluster)
    assert {name for name in before if before[name] != after.get(name)} == TIER_PODS
    assert after.keys() >= TIER_PODS
    assert counts(cluster) == (0, 0)
    assert cluster.status["replicaAttempts"] == {"work": {"1": 1}}
    cluster.run()
    cluster.settle()
    assert cluster.status["replicaAttempts"] == {"work": {"1": 1}}
    assert cluster.phase == "Running"


def test_a_replica_that_is_half_made_is_not_taken_for_torn() -> None:
    cluster = tiered(of={**GROUPS, "replicas": 1})
    cluster.scale("work", 2)
    cluster.settle()
    del cluster.objects["Pod", "x-work-1-1"]
    cluster.settle()
    assert "replicaAttempts" not in cluster.status
    assert {*cluster.pods} >= TIER_PODS


# --- process groups and node checks ---


def test_members_come_and_go_with_the_tier() -> None:
    cluster = tiered(of={"maxReplicas": 3, "processGroup": {"elastic": True}})
    assert sorted(cluster.status["groups"]["work"]["members"]) == ["0", "1", "2"]
    lose(cluster, SECOND, "evicted")
    ended(cluster)
    cluster.refuse(SECOND, WORDS)
    for _ in range(6):
        cluster.wait(30)
    group = cluster.status["groups"]["work"]
    assert (sorted(group["members"]), group["state"]) == (["0", "1"], "Formed")
    assert cluster.phase == "Running"


def test_checks_of_nodes_are_judged_without_those_who_have_no_node() -> None:
    cluster = ClusterModel(job(work(5, minReplicas=4, nodeCheck={"command": ["check"]})))
    cluster.settle()
    for index, seconds in enumerate((1, 1, 1, 9)):
        said = {"terminated": {"exitCode": 0, "message": f'{{"seconds": {seconds}}}'}}
        check = [{"name": "di-node-check", "state": said}]
        cluster._set(
            f"x-work-{index}",
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "initContainerStatuses": check,
            },
        )
        cluster.pods[f"x-work-{index}"]["spec"]["nodeName"] = f"n{index}"
    cluster.settle()
    assert cluster.condition("NodeCheckFailed")["status"] == "True"
    assert "n3" in cluster.condition("NodeCheckFailed")["message"]
