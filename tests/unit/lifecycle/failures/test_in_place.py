"""Processes that are restarted in place.

A learner of three pods, each the only container of its pod, whose rule is RestartInPlace.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task
from tests.unit.lifecycle.kubelet_model import Object
from tests.unit.lifecycle.scheduling.test_groups import ELASTIC, group, world

IN_PLACE: Object = {"action": "RestartInPlace"}
NAMES = [f"x-learner-{index}" for index in range(3)]
FIRST, SECOND, THIRD = NAMES


def learners(
    *rules: Object, limit: int = 9, fields: Object | None = None, **policy: Any
) -> ClusterModel:
    policy = {"rules": [*rules, IN_PLACE], **policy}
    return running(task("learner", 3, **(fields or {})), backoffLimit=limit, failurePolicy=policy)


def restarts(cluster: ClusterModel, index: int) -> int:
    records = cluster.status.get("replicaFailures", {}).get("learner", {})
    count: int = records.get(str(index), {}).get("restarts", 0)
    return count


def counted(cluster: ClusterModel) -> tuple[int, list[int]]:
    """Restarts of the job, and of each replica."""
    return cluster.status["restarts"], [restarts(cluster, index) for index in range(3)]


@pytest.mark.proves("process-groups.md#restarts-in-place")
def test_a_failed_process_restarts_in_its_pod_and_renews_the_group() -> None:
    cluster = learners()
    before = cluster.uids
    assert world(cluster) == (1, [0, 1, 2])
    cluster.writes.clear()
    cluster.restart(SECOND).settle()
    assert (cluster.uids, world(cluster)) == (before, (2, [0, 1, 2]))
    assert group(cluster)["members"]["1"] == f"{before[SECOND]}/1"
    assert (counted(cluster), cluster.phase) == ((1, [0, 1, 0]), "Running")
    # Counted with the new world, Starting, Running; and the file.
    assert cluster.writes == ["status", "replace ConfigMap", "status", "status"]
    (told,) = (event for event in cluster.events if event.reason is Reason.JOB_RESTARTING)
    assert told.message == (
        "1 pod failed, restart 1 of 9; pod x-learner-1 failed first: exit code 1; "
        "1 pod restarted in place"
    )
    cluster.pass_time(3600)
    cluster.writes.clear()
    cluster.wait(0)
    assert cluster.writes == []


@pytest.mark.parametrize("crash_after", range(1, 6))
def test_a_failure_that_is_seen_twice_counts_once(crash_after: int) -> None:
    cluster = learners().restart(SECOND)
    old = [*cluster.pods.values()]
    with suppress(Crash):
        for _ in range(3):
            cluster.reconcile(crash_after=crash_after)
    # A list shows what the watch has shown already, and the other way round.
    for pods in (old, None):
        assert cluster.snapshot(pods).renewed == () or cluster.status["restarts"] == 0
    cluster.settle()
    assert (counted(cluster), world(cluster)) == ((1, [0, 1, 0]), (2, [0, 1, 2]))


def test_late_watch_events_do_not_change_the_group() -> None:
    cluster = learners()
    past = [copy.deepcopy([*cluster.pods.values()])]
    for _ in range(2):
        cluster.crash(SECOND).settle()
        past.append(copy.deepcopy([*cluster.pods.values()]))
        cluster.begin_again(SECOND).settle()
        past.append(copy.deepcopy([*cluster.pods.values()]))
    assert world(cluster) == (3, [0, 1, 2])
    before = group(cluster)
    pending = copy.deepcopy(past[0])
    for pod in pending:
        pod["status"] = {"phase": "Pending"}
    for pods in (pending, *past):
        snapshot = cluster.snapshot(pods)
        assert snapshot.renewed == ()
        status = decide(snapshot, cluster.now, cluster.settings).status
        assert status is None or status["groups"]["learner"] == before
    # One that has ended and was replaced is not shown in anybody's place either.
    cluster.delete_pod(THIRD)
    old = copy.deepcopy([*cluster.pods.values()])
    cluster.settle().end(THIRD).settle()
    cluster.run(THIRD).settle()
    assert world(cluster) == (4, [0, 1, 2])
    for pod in old:
        pod["metadata"].pop("deletionTimestamp", None)
    status = decide(cluster.snapshot(old), cluster.now, cluster.settings).status
    assert status is None or status["groups"]["learner"] == group(cluster)


def test_there_is_no_group_while_a_container_waits_to_restart() -> None:
    cluster = learners().crash(SECOND, code=3).settle()
    assert world(cluster) == (1, [])
    assert cluster.condition("Starting")["reason"] == "CrashLoopBackOff"
    assert (
        "container di-container ended with exit code 3"
        in (cluster.condition("Starting")["message"])
    )
    cluster.pass_time(600).wait(0)
    assert group(cluster)["state"] == "InsufficientReplicas"
    assert "had 2 of at least 3 members" in cluster.condition("InsufficientReplicas")["message"]
    cluster.begin_again(SECOND).settle()
    assert (world(cluster), counted(cluster)) == ((2, [0, 1, 2]), (1, [0, 1, 0]))
    assert cluster.phase == "Running"


def test_an_elastic_group_forms_without_a_container_that_stays_down() -> None:
    cluster = learners(fields=ELASTIC).crash(THIRD).wait(0).pass_time(59).wait(0)
    assert world(cluster) == (1, [])
    cluster.pass_time(1).wait(0)
    assert world(cluster) == (2, [0, 1])
    cluster.crash(SECOND).wait(0).pass_time(600).wait(0)
    assert (world(cluster), group(cluster)["state"]) == ((2, []), "InsufficientReplicas")
    cluster.begin_again(SECOND, THIRD).wait(0)
    assert (world(cluster), counted(cluster)) == ((3, [0, 1, 2]), (2, [0, 1, 1]))


@pytest.mark.parametrize("together", [True, False])
def test_failures_that_follow_the_first_one_are_not_counted(together: bool) -> None:
    cluster = learners(limit=1, replicaBackoffLimit=1).crash(SECOND)
    if not together:
        cluster.settle()
    cluster.pass_time(1).crash(FIRST, THIRD).settle()
    assert counted(cluster) == (1, [0, 1, 0])
    cluster.begin_again(*NAMES).settle()
    assert world(cluster) == (2, [0, 1, 2])
    assert (cluster.phase, counted(cluster)) == ("Running", (1, [0, 1, 0]))
    # The next one is one of its own.
    cluster.restart(FIRST).settle()
    assert cluster.phase == "Failed"
    message = cluster.condition("Failed")["message"]
    assert message.startswith("1 pod failed, 1 restart of 1 used; pod x-learner-0 failed first")


def test_a_failure_of_a_member_that_never_ran_is_recorded_at_once() -> None:
    policy = {"rules": [IN_PLACE]}
    cluster = ClusterModel(job(task("learner", 3, **ELASTIC), failurePolicy=policy))
    cluster.settle().run(FIRST, SECOND).wait(0)
    cluster.pass_time(60).wait(0)
    assert world(cluster) == (1, [0, 1])
    cluster.crash(SECOND).wait(0)
    # No member comes or goes by it, and a few seconds later it would be one of the next world's.
    cluster.crash(THIRD).wait(0)
    assert cluster.status["replicaFailures"]["learner"]["2"]["failures"] == 1
    assert counted(cluster) == (1, [0, 1, 0])


def test_a_follow_up_failure_that_is_reported_late_is_not_counted() -> None:
    cluster = learners()
    ended = cluster.now
    cluster.pass_time(2).restart(SECOND).wait(0)
    assert world(cluster) == (2, [0, 1, 2])
    formed, cluster.now = cluster.now, ended
    cluster.restart(FIRST)
    cluster.now = formed
    cluster.settle()
    assert (counted(cluster), world(cluster)) == ((1, [0, 1, 0]), (3, [0, 1, 2]))
    # It is one failure that is not counted, not all of them.
    cluster.pass_time(60).restart(FIRST).settle()
    assert counted(cluster) == (2, [1, 1, 0])


@pytest.mark.proves("process-groups.md#restarts-in-place")
@pytest.mark.parametrize(
    ("fields", "policy", "reason"),
    [
        ({}, {}, "JobFailed"),
        ({"backoffLimit": 2}, {}, "TaskBackoffLimit"),
        ({"backoffLimit": "Unlimited"}, {"replicaBackoffLimit": 2}, "ReplicaBackoffLimit"),
    ],
)
def test_repeated_failures_reach_the_configured_limit(
    fields: Object, policy: Object, reason: str
) -> None:
    cluster = learners(limit=2, fields=fields, **policy)
    for times in (1, 2):
        cluster.crash(SECOND).settle()
        assert counted(cluster) == (times, [0, times, 0])
        cluster.begin_again(SECOND)
        if times == 2:
            cluster.settle()
    cluster.crash(SECOND, code=7).wait(0)
    assert (cluster.phase, cluster.condition("Failed")["reason"]) == ("Failed", reason)
    assert "pod x-learner-1 failed first: exit code 7" in cluster.condition("Failed")["message"]


def test_restarts_that_were_not_seen_count_for_the_replica() -> None:
    cluster = learners(replicaBackoffLimit=3).restart(SECOND).restart(SECOND)
    cluster.restart(SECOND).settle()
    assert counted(cluster) == (1, [0, 3, 0])
    cluster = learners(replicaBackoffLimit=1).restart(SECOND).restart(SECOND).settle()
    assert cluster.condition("Failed")["reason"] == "ReplicaBackoffLimit"


def by_code(code: int, action: str, **more: Any) -> Object:
    return {"onExitCodes": {"operator": "In", "values": [code]}, "action": action, **more}


def replaced(cluster: ClusterModel, before: dict[str, str]) -> list[str]:
    """The pods that were replaced, once all deleted pods have ended."""
    for _ in range(2):
        cluster.end_deleted().settle()
    return [name for name, uid in cluster.uids.items() if before[name] != uid]


@pytest.mark.parametrize(
    ("action", "who", "restarts", "reschedules"),
    [
        ("Restart", [SECOND], 1, 0),
        ("Ignore", [SECOND], 0, 1),
        ("RestartTask", NAMES, 1, 0),
        ("RestartJob", NAMES, 1, 0),
    ],
)
@pytest.mark.parametrize("waits", [True, False])
def test_an_earlier_rule_replaces_pods_instead(
    action: str, who: list[str], restarts: int, reschedules: int, waits: bool
) -> None:
    cluster = learners(by_code(7, action))
    before = cluster.uids
    cluster.crash(SECOND, code=7)
    if not waits:
        cluster.begin_again(SECOND)
    cluster.reconcile()
    # What it does until it is gone does not count.
    cluster.begin_again(SECOND).restart(SECOND).settle()
    assert (replaced(cluster, before), cluster.counts) == (who, (restarts, reschedules))
    cluster.run().settle()
    assert (cluster.phase, world(cluster)) == ("Running", (2, [0, 1, 2]))


def test_fail_job_ends_the_job_and_grown_memory_needs_a_new_pod() -> None:
    cluster = learners(by_code(7, "FailJob")).restart(SECOND, code=7).settle()
    assert cluster.condition("Failed")["reason"] == "PodFailurePolicy"
    limited = task("learner", 3)
    container = limited["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "1Gi"}}
    oom = {"onReasons": ["OOMKilled"], "growMemory": {"factor": 2}}
    cluster = running(limited, backoffLimit=9, failurePolicy={"rules": [oom, IN_PLACE]})
    before = cluster.uids
    cluster.restart(SECOND, code=137, reason="OOMKilled").settle()
    assert replaced(cluster, before) == [SECOND]
    grown = cluster.pods[SECOND]["spec"]["containers"][0]["resources"]["limits"]
    assert grown == {"memory": "2Gi"}


def test_later_rules_apply_to_a_pod_that_ended_as_a_whole() -> None:
    ignored = {"onReasons": ["Evicted"], "action": "Ignore"}
    policy = {"rules": [IN_PLACE, ignored]}
    cluster = running(task("learner", 3), backoffLimit=9, failurePolicy=policy)
    before = cluster.uids
    cluster.evict(SECOND).settle()
    assert (replaced(cluster, before), cluster.counts) == ([SECOND], (0, 1))
    cluster.run().settle()
    before = cluster.uids
    cluster.fail(THIRD).settle()
    assert (replaced(cluster, before), cluster.status["restarts"]) == ([THIRD], 1)


def test_a_job_succeeds_after_restarts_in_place() -> None:
    cluster = learners().restart(SECOND).settle()
    members = group(cluster)["members"]
    for name in (SECOND, FIRST, THIRD):
        status = cluster.pods[name]["status"]
        cluster.objects["Pod", name]["status"] = {**status, "phase": "Succeeded"}
        cluster.reconcile()
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert (group(cluster)["generation"], group(cluster)["members"]) == (2, members)


def test_a_rule_added_later_applies_to_new_pods() -> None:
    cluster = running(task("learner", 3), backoffLimit=9)
    assert "groups" not in cluster.status
    assert {pod["spec"]["restartPolicy"] for pod in cluster.pods.values()} == {"Never"}
    cluster.edit(failurePolicy={"rules": [IN_PLACE]}).settle()
    assert world(cluster) == (1, [0, 1, 2])
    assert Reason.NODE_LISTS_RESTORED not in [each.reason for each in cluster.events]
    before = cluster.uids
    cluster.fail(SECOND).settle()
    assert replaced(cluster, before) == [SECOND]
    assert cluster.pods[SECOND]["spec"]["restartPolicy"] == "OnFailure"
    cluster.run().settle()
    cluster.restart(SECOND)
    # And one that goes is for all of them: the pod is replaced.
    cluster.edit(failurePolicy={"rules": []})
    before = cluster.uids
    cluster.settle()
    assert replaced(cluster, before) == [SECOND]
    assert cluster.pods[SECOND]["spec"]["restartPolicy"] == "Never"


def test_only_the_tasks_of_the_rule_restart_in_place() -> None:
    rule = {"tasks": ["learner"], **IN_PLACE}
    cluster = running(task("learner"), task("collector"), failurePolicy={"rules": [rule]})
    policies = {name: pod["spec"]["restartPolicy"] for name, pod in cluster.pods.items()}
    assert policies == {"x-learner-0": "OnFailure", "x-collector-0": "Never"}
    assert [*cluster.status["groups"]] == ["learner"]
    assert "DI_GROUP_FILE" not in cluster.env("x-collector-0")
    assert cluster.env("x-learner-0")["DI_GROUP_FILE"] == "/etc/diengine/nodes/groups.learner"


def test_restarts_of_init_containers_are_not_counted() -> None:
    cluster = learners()
    writes = [*cluster.writes]
    loops = {
        "name": "logs",
        "restartCount": 4,
        "state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }
    status = cluster.pods[SECOND]["status"]
    cluster.objects["Pod", SECOND]["status"] = {**status, "initContainerStatuses": [loops]}
    cluster.settle()
    assert cluster.writes == writes


def test_a_large_group_costs_one_write_to_begin_and_one_to_form() -> None:
    group = {"processGroup": {"framework": "torch"}}
    cluster = ClusterModel(job(task("learner", 50, **group))).settle()
    cluster.writes.clear()
    for index in range(50):
        # Not ready yet, which would be told of after a while.
        cluster.say(f"x-learner-{index}", phase="Running").wait(0)
    assert cluster.writes == ["status", "status", "replace ConfigMap"]
    assert world(cluster) == (1, [*range(50)])
