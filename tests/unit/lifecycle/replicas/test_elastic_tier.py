"""Elastic tiers: what comes and goes beside a core that keeps running."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.lifecycle.write_errors import CreateForbidden, QuotaExceeded, TemplateRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

CORE, FIRST, SECOND = "x-work-0", "x-work-1", "x-work-2"
WORDS = "0/3 nodes are available: 3 node(s) had untolerated taint {spot: gone}."


def work(replicas: int = 3, tier: object = None, **fields: Any) -> dict[str, Any]:
    tier = {"priorityClassName": "spot"} if tier is None else tier
    return task("work", replicas, **{"minReplicas": 1, "elastic": tier, **fields})


def tiered(*others: dict[str, Any], of: dict[str, Any] | None = None, **spec: Any) -> ClusterModel:
    """A job that runs, with all of its elastic tier."""
    return running(*others, work(**(of or {})), **spec).run().settle()


LOSSES = ("preempted", "failed by the node", "evicted", "gone")


# --- how it starts ---


def test_the_core_comes_first_and_the_job_runs_with_it_alone() -> None:
    cluster = ClusterModel(job(work())).settle()
    assert set(cluster.pods) == {CORE, FIRST, SECOND}
    created = [write for write in cluster.writes if write.startswith("create Pod")]
    assert created[0] == f"create Pod {CORE}"
    assert cluster.writes.index("status") < cluster.writes.index(f"create Pod {FIRST}")
    cluster.run(CORE).settle()
    assert cluster.phase == "Running"
    assert (cluster.status["replicas"], cluster.status["readyReplicas"]) == (3, 1)


@pytest.mark.proves(
    "dijob.md#spec-tasks/elastic-templatepatch", "dijob.md#spec-tasks/elastic-priorityclassname"
)
def test_pods_carry_their_tier_and_its_template_patch() -> None:
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


def test_a_task_without_a_tier_has_no_tier_label() -> None:
    cluster = tiered(task("learner"))
    assert "DI_TIER" not in cluster.env("x-learner-0")
    assert "diengine/tier" not in cluster.pods["x-learner-0"]["metadata"]["labels"]


def test_dependent_tasks_wait_for_the_core_only() -> None:
    cluster = ClusterModel(job(work(), task("evaluator", dependsOn=["work"]))).settle()
    cluster.run(CORE).settle()
    assert "x-evaluator-0" in cluster.pods


@pytest.mark.proves("roles.md#core-and-elastic-tier/it-finds-no-node-or-a-quota-or-admission")
def test_an_unschedulable_elastic_pod_is_reported_and_blocks_nothing() -> None:
    cluster = ClusterModel(job(work(), pendingTimeoutSeconds=60)).settle().run(CORE)
    cluster.refuse(FIRST, WORDS).refuse(SECOND, WORDS).wait(10)
    assert cluster.phase == "Running"
    said = cluster.condition("Running")
    assert said["reason"] == "Unschedulable"
    assert said["message"] == f"2 of 3 pods cannot run, {FIRST} first: {WORDS}"
    assert cluster.condition("BelowMinimum")["status"] == "False"
    writes = len(cluster.writes)
    for _ in range(100):
        cluster.wait(100)
    assert (cluster.phase, len(cluster.writes)) == ("Running", writes)
    cluster.run().wait(10)
    assert cluster.condition("Running")["reason"] == "JobRunning"
    assert cluster.status["readyReplicas"] == 3


def test_only_the_core_counts_for_the_minimum() -> None:
    cluster = tiered(of={"minReplicas": 2}, pendingTimeoutSeconds=600)
    cluster.refuse(FIRST, WORDS).wait(10)
    assert cluster.condition("BelowMinimum")["message"] == (
        "task work has fewer pods ready than its minimum, 2"
    )
    cluster.wait(600)
    assert cluster.phase == "Failed"


def test_an_unschedulable_core_pod_is_reported_first() -> None:
    cluster = ClusterModel(job(work(), task("learner"), pendingTimeoutSeconds=600))
    cluster.settle().run(CORE).refuse("x-learner-0", WORDS).wait(10)
    assert cluster.phase == "Starting"
    assert "x-learner-0 first" in cluster.condition("Starting")["message"]


# --- losses ---


@pytest.mark.proves("roles.md#core-and-elastic-tier/it-is-evicted-preempted-deleted-moved-or")
@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("rules", [(), ("FailJob",), ("Restart",)])
def test_a_lost_elastic_pod_is_no_failure_and_no_reschedule(how: str, rules: tuple[str]) -> None:
    policy = {"failurePolicy": {"rules": [{"action": each} for each in rules]}} if rules else {}
    cluster = tiered(of={"replicas": 2}, backoffLimit=0, **policy)
    before, phases = cluster.uids, len(cluster.phases)
    cluster.lose(FIRST, how)
    cluster.settle().end_deleted().settle()
    assert cluster.uids[CORE] == before[CORE]
    assert cluster.uids[FIRST] != before[FIRST]
    assert cluster.counts == (0, 0)
    assert {*cluster.phases[phases:]} <= {"Running"}
    assert cluster.phase == "Running"


def test_a_loss_is_recorded_and_reported_once() -> None:
    cluster = tiered()
    writes = cluster.writes.count("status")
    cluster.lose(FIRST, "preempted").lose(SECOND, "evicted")
    cluster.settle().end_deleted().settle()
    losses = [(loss["pod"], loss.get("reason")) for loss in cluster.status["failures"]]
    assert losses == [(SECOND, "Evicted"), (FIRST, "PreemptionByScheduler")]
    told = [each.message for each in cluster.events if each.reason == "ElasticReplicasLost"]
    assert told == [f"2 replicas of the elastic tier lost, {FIRST} first"]
    # One that says so, and one with other counts of pods.
    assert cluster.writes.count("status") - writes <= 2


def test_a_lost_core_pod_is_a_reschedule() -> None:
    cluster = tiered()
    cluster.lose(CORE, "evicted")
    cluster.lose(FIRST, "evicted")
    cluster.reconcile()
    assert cluster.phase == "Rescheduling"
    assert "1 pod lost, x-work-0 first" in cluster.condition("Rescheduling")["message"]
    cluster.settle().end_deleted().settle()
    cluster.run().settle()
    assert (cluster.counts, cluster.phase) == ((0, 1), "Running")
    cluster.settle()
    assert set(cluster.pods) == {CORE, FIRST, SECOND}


@pytest.mark.proves("roles.md#core-and-elastic-tier/a-container-of-it-fails-by-itself")
def test_an_elastic_pod_that_fails_is_a_failure() -> None:
    cluster = tiered(backoffLimit=1).fail(FIRST).settle().end_deleted().settle()
    cluster.settle()
    assert (cluster.counts, cluster.phase) == ((1, 0), "Running")
    cluster.run().settle().fail(SECOND).settle()
    assert cluster.phase == "Failed"


def test_a_failure_and_a_loss_together_are_one_restart() -> None:
    cluster = tiered(backoffLimit=3).fail(FIRST)
    cluster.lose(SECOND, "evicted")
    cluster.settle().end_deleted().settle()
    cluster.run().settle()
    assert (cluster.counts, len(cluster.status["failures"])) == ((1, 0), 2)
    assert set(cluster.pods) == {CORE, FIRST, SECOND}


def test_an_ignored_failure_of_an_elastic_pod_is_not_counted() -> None:
    rules = [{"onExitCodes": {"operator": "In", "values": [7]}, "action": "Ignore"}]
    cluster = tiered(backoffLimit=0, failurePolicy={"rules": rules}).fail(FIRST, code=7)
    cluster.settle().end_deleted().settle()
    assert (cluster.counts, cluster.phase) == ((0, 0), "Running")
    assert FIRST in cluster.pods


@pytest.mark.proves("roles.md#core-and-elastic-tier/then")
def test_a_pod_that_is_lost_repeatedly_is_made_after_a_backoff() -> None:
    cluster = tiered(of={"replicas": 2})
    pauses = []
    for _ in range(6):
        cluster.lose(FIRST, "evicted")
        cluster.settle().end_deleted().settle()
        began = cluster.now
        while FIRST not in cluster.pods:
            cluster.pass_time(1).reconcile()
        pauses.append(round((cluster.now - began).total_seconds()))
        assert cluster.phase == "Running"
        cluster.run(FIRST).settle().wait(5)
    assert (pauses[0], pauses[1:]) == (0, sorted(pauses[1:]))
    assert pauses[-1] > 2 * pauses[1] >= 10
    cluster.wait(601)
    cluster.lose(FIRST, "evicted")
    cluster.settle().end_deleted().settle()
    assert FIRST in cluster.pods


def test_an_elastic_pod_on_a_lost_node_is_replaced() -> None:
    cluster = tiered()
    cluster.lose(FIRST, "preempted")
    cluster.pods[FIRST]["status"]["reason"] = "NodeLost"
    cluster.settle().wait(61).settle()
    assert FIRST not in cluster.ending
    assert cluster.counts == (0, 0)


@pytest.mark.parametrize("writes", range(1, 8))
def test_a_crash_at_any_write_counts_nothing(writes: int) -> None:
    cluster = tiered()
    cluster.lose(FIRST, "evicted")
    cluster.die_after(writes)
    cluster.settle().end_deleted().settle()
    cluster.run().wait(10)
    assert (cluster.counts, len(cluster.status["failures"])) == ((0, 0), 1)
    assert cluster.status["readyReplicas"] == 3


def test_a_suspension_is_no_loss() -> None:
    cluster = tiered().edit(suspend=True).settle().end_deleted().settle()
    assert not cluster.pods
    cluster.edit(suspend=False).settle().run().settle()
    assert not [each for each in cluster.events if each.reason == "ElasticReplicasLost"]
    assert cluster.status["readyReplicas"] == 3


@pytest.mark.proves("roles.md#core-and-elastic-tier/it-is-scaled-away-or-more-are-asked-for")
def test_scaling_the_tier_is_a_reschedule() -> None:
    cluster = tiered().scale("work", 2).settle().end_deleted().settle()
    assert set(cluster.pods) == {CORE, FIRST}
    cluster.scale("work", 4).settle().end_deleted().settle()
    assert set(cluster.pods) == {CORE, FIRST, SECOND, "x-work-3"}
    assert (cluster.counts, cluster.phase) == ((0, 2), "Running")


# --- refusals ---


@pytest.mark.proves("roles.md#core-and-elastic-tier/it-finds-no-node-or-a-quota-or-admission")
@pytest.mark.parametrize("refusal", [QuotaExceeded, CreateForbidden])
def test_a_refused_elastic_pod_is_reported_and_the_job_runs_on(refusal: Any) -> None:
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


@pytest.mark.proves("events.md#of-its-life/invalidtemplate")
def test_a_template_that_the_api_server_refuses_ends_the_job() -> None:
    cluster = ClusterModel(job(work()))
    cluster.reconcile()
    cluster.run()
    cluster.refuse_pods = TemplateRefused(message="tolerations: invalid")
    cluster.settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "InvalidTemplate"


# --- the end ---


def test_a_job_succeeds_with_its_core_and_its_running_elastic_pods() -> None:
    cluster = tiered().succeed(CORE).settle()
    assert cluster.phase == "Running"
    cluster.succeed(FIRST).refuse(SECOND, WORDS).settle()
    assert cluster.phase == "Succeeded"
    cluster.settle()
    assert SECOND not in cluster.pods


def test_a_job_does_not_succeed_without_its_core() -> None:
    cluster = tiered().succeed(FIRST, SECOND).settle()
    assert cluster.phase == "Running"


def test_a_success_policy_ignores_pods_that_never_ran() -> None:
    policy = {"tasks": ["work"], "gracePeriodSeconds": 0}
    cluster = tiered(task("evaluator"), successPolicy=policy).refuse(FIRST, WORDS)
    cluster.succeed(CORE).settle()
    assert cluster.phase == "Running"
    cluster.succeed(SECOND).settle()
    assert cluster.phase == "Succeeded"


def test_a_task_deadline_ignores_pods_that_never_ran() -> None:
    cluster = tiered(task("evaluator"), of={"activeDeadlineSeconds": 1000})
    cluster.refuse(FIRST, WORDS).succeed(CORE, SECOND).wait(2000)
    assert cluster.phase == "Running"


# --- replicas of several pods ---

GROUPS = {"podsPerReplica": 2, "replicas": 2}
TIER_PODS = {"x-work-1-0", "x-work-1-1"}


@pytest.mark.parametrize("how", LOSSES)
def test_a_replica_of_several_pods_is_lost_as_a_whole(how: str) -> None:
    cluster = tiered(of=GROUPS)
    assert cluster.env("x-work-1-1")["DI_TIER"] == "elastic"
    before = cluster.uids
    cluster.lose("x-work-1-1", how)
    for _ in range(2):
        cluster.settle().end_deleted().settle()
    after = cluster.uids
    assert {name for name in before if before[name] != after.get(name)} == TIER_PODS
    assert after.keys() >= TIER_PODS
    assert cluster.counts == (0, 0)
    assert cluster.status["replicaAttempts"] == {"work": {"1": 1}}
    cluster.run().settle()
    assert cluster.status["replicaAttempts"] == {"work": {"1": 1}}
    assert cluster.phase == "Running"


def test_a_half_made_replica_is_not_replaced() -> None:
    cluster = tiered(of={**GROUPS, "replicas": 1}).scale("work", 2).settle()
    del cluster.objects["Pod", "x-work-1-1"]
    cluster.settle()
    assert "replicaAttempts" not in cluster.status
    assert {*cluster.pods} >= TIER_PODS


# --- process groups and node checks ---


def test_group_members_follow_the_tier() -> None:
    cluster = tiered(of={"maxReplicas": 3, "processGroup": {"elastic": True}})
    assert sorted(cluster.status["groups"]["work"]["members"]) == ["0", "1", "2"]
    cluster.lose(SECOND, "evicted")
    cluster.settle().end_deleted().settle()
    cluster.refuse(SECOND, WORDS)
    for _ in range(6):
        cluster.wait(30)
    group = cluster.status["groups"]["work"]
    assert (sorted(group["members"]), group["state"]) == (["0", "1"], "Formed")
    assert cluster.phase == "Running"


def test_node_checks_do_not_wait_for_unscheduled_pods() -> None:
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
