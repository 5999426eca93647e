"""Processes that are restarted in place: rows D of the acceptance scenarios, from D10 on.

A learner of three pods, each the only container of its pod, whose rule is RestartInPlace.
"""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest

from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, Object, job, running, task

IN_PLACE: Object = {"action": "RestartInPlace"}
NAMES = [f"x-learner-{index}" for index in range(3)]
FIRST, SECOND, THIRD = NAMES
ELASTIC: Object = {
    "processGroup": {"elastic": True, "lastCallSeconds": 60, "deadlineSeconds": 600},
    "minReplicas": 2,
    "maxReplicas": 4,
}


def learners(
    *rules: Object, limit: int = 9, fields: Object | None = None, **policy: Any
) -> ClusterModel:
    policy = {"rules": [*rules, IN_PLACE], **policy}
    return running(task("learner", 3, **(fields or {})), backoffLimit=limit, failurePolicy=policy)


def look(cluster: ClusterModel) -> None:
    """Reconcile until nothing is left to do at this moment."""
    for _ in range(10):
        decision = cluster.reconcile()
        if not decision.actions and decision.status is None:
            return
    raise AssertionError("no fixed point")


def uids(cluster: ClusterModel) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}


def group(cluster: ClusterModel) -> Object:
    found: Object = cluster.status["groups"]["learner"]
    return found


def world(cluster: ClusterModel) -> tuple[int, list[int]]:
    """Generation and members as the pods are told them."""
    told = json.loads(cluster.objects["ConfigMap", "di-x"]["data"]["groups.learner"])
    assert (told["generation"], told["state"]) == (
        group(cluster)["generation"],
        group(cluster)["state"],
    )
    return told["generation"], told["members"]


def restarts(cluster: ClusterModel, index: int) -> int:
    records = cluster.status.get("replicaFailures", {}).get("learner", {})
    count: int = records.get(str(index), {}).get("restarts", 0)
    return count


def counted(cluster: ClusterModel) -> tuple[int, list[int]]:
    """Restarts of the job, and of each replica."""
    return cluster.status["restarts"], [restarts(cluster, index) for index in range(3)]


def test_d10_a_process_that_failed_is_replaced_in_its_pod_and_all_are_told() -> None:
    cluster = learners()
    before = uids(cluster)
    assert world(cluster) == (1, [0, 1, 2])
    cluster.writes.clear()
    cluster.restart(SECOND)
    cluster.settle()
    assert uids(cluster) == before
    assert world(cluster) == (2, [0, 1, 2])
    assert group(cluster)["members"]["1"] == f"{before[SECOND]}/1"
    assert counted(cluster) == (1, [0, 1, 0])
    assert cluster.phase == "Running"
    # Counted with the new world, Starting, Running; and the file.
    assert cluster.writes == ["status", "replace ConfigMap", "status", "status"]
    (told,) = (event for event in cluster.events if event.reason is Reason.JOB_RESTARTING)
    assert told.message == (
        "1 pod failed, restart 1 of 9; pod x-learner-1 failed first: exit code 1; "
        "1 pod restarted in place"
    )
    cluster.pass_time(3600)
    cluster.writes.clear()
    look(cluster)
    assert cluster.writes == []


@pytest.mark.parametrize("crash_after", range(1, 6))
def test_d11_a_failure_seen_twice_is_one(crash_after: int) -> None:
    cluster = learners()
    cluster.restart(SECOND)
    old = [*cluster.pods.values()]
    with suppress(Crash):
        for _ in range(3):
            cluster.reconcile(crash_after=crash_after)
    # A list shows what the watch has shown already, and the other way round.
    for pods in (old, None):
        assert cluster.snapshot(pods).renewed == () or cluster.status["restarts"] == 0
    cluster.settle()
    assert counted(cluster) == (1, [0, 1, 0])
    assert world(cluster) == (2, [0, 1, 2])


def test_d11_what_a_watch_shows_late_makes_no_other_world() -> None:
    cluster = learners()
    past = [copy.deepcopy([*cluster.pods.values()])]
    for _ in range(2):
        cluster.crash(SECOND)
        cluster.settle()
        past.append(copy.deepcopy([*cluster.pods.values()]))
        cluster.begin_again(SECOND)
        cluster.settle()
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
    cluster.settle()
    cluster.end(THIRD)
    cluster.settle()
    cluster.run(THIRD)
    cluster.settle()
    assert world(cluster) == (4, [0, 1, 2])
    for pod in old:
        pod["metadata"].pop("deletionTimestamp", None)
    status = decide(cluster.snapshot(old), cluster.now, cluster.settings).status
    assert status is None or status["groups"]["learner"] == group(cluster)


def test_d12_while_one_waits_to_be_restarted_there_is_no_world() -> None:
    cluster = learners()
    cluster.crash(SECOND, code=3)
    cluster.settle()
    assert world(cluster) == (1, [])
    assert cluster.condition("Starting")["reason"] == "CrashLoopBackOff"
    assert (
        "container di-container ended with exit code 3"
        in (cluster.condition("Starting")["message"])
    )
    cluster.pass_time(600)
    look(cluster)
    assert group(cluster)["state"] == "InsufficientReplicas"
    assert "had 2 of at least 3 members" in cluster.condition("InsufficientReplicas")["message"]
    cluster.begin_again(SECOND)
    cluster.settle()
    assert world(cluster) == (2, [0, 1, 2])
    assert counted(cluster) == (1, [0, 1, 0])
    assert cluster.phase == "Running"


def test_d13_who_stays_away_does_not_hold_up_an_elastic_group() -> None:
    cluster = learners(fields=ELASTIC)
    cluster.crash(THIRD)
    look(cluster)
    cluster.pass_time(59)
    look(cluster)
    assert world(cluster) == (1, [])
    cluster.pass_time(1)
    look(cluster)
    assert world(cluster) == (2, [0, 1])
    cluster.crash(SECOND)
    look(cluster)
    cluster.pass_time(600)
    look(cluster)
    assert world(cluster) == (2, [])
    assert group(cluster)["state"] == "InsufficientReplicas"
    cluster.begin_again(SECOND, THIRD)
    look(cluster)
    assert world(cluster) == (3, [0, 1, 2])
    assert counted(cluster) == (2, [0, 1, 1])


@pytest.mark.parametrize("together", [True, False])
def test_d14_those_who_fail_with_it_are_not_counted(together: bool) -> None:
    cluster = learners(limit=1, replicaBackoffLimit=1)
    cluster.crash(SECOND)
    if not together:
        cluster.settle()
    cluster.pass_time(1)
    cluster.crash(FIRST, THIRD)
    cluster.settle()
    assert counted(cluster) == (1, [0, 1, 0])
    cluster.begin_again(*NAMES)
    cluster.settle()
    assert world(cluster) == (2, [0, 1, 2])
    assert (cluster.phase, counted(cluster)) == ("Running", (1, [0, 1, 0]))
    # The next one is one of its own.
    cluster.restart(FIRST)
    cluster.settle()
    assert cluster.phase == "Failed"
    message = cluster.condition("Failed")["message"]
    assert message.startswith("1 pod failed, 1 restart of 1 used; pod x-learner-0 failed first")


def test_d14_one_that_never_came_to_run_is_remembered_at_once() -> None:
    policy = {"rules": [IN_PLACE]}
    cluster = ClusterModel(job(task("learner", 3, **ELASTIC), failurePolicy=policy))
    cluster.settle()
    cluster.run(FIRST, SECOND)
    look(cluster)
    cluster.pass_time(60)
    look(cluster)
    assert world(cluster) == (1, [0, 1])
    cluster.crash(SECOND)
    look(cluster)
    # No member comes or goes by it, and a few seconds later it would be one of the next world's.
    cluster.crash(THIRD)
    look(cluster)
    assert cluster.status["replicaFailures"]["learner"]["2"]["failures"] == 1
    assert counted(cluster) == (1, [0, 1, 0])


def test_d14_also_when_their_kubelet_tells_of_it_late() -> None:
    cluster = learners()
    ended = cluster.now
    cluster.pass_time(2)
    cluster.restart(SECOND)
    look(cluster)
    assert world(cluster) == (2, [0, 1, 2])
    formed, cluster.now = cluster.now, ended
    cluster.restart(FIRST)
    cluster.now = formed
    cluster.settle()
    assert counted(cluster) == (1, [0, 1, 0])
    assert world(cluster) == (3, [0, 1, 2])
    # It is one failure that is not counted, not all of them.
    cluster.pass_time(60)
    cluster.restart(FIRST)
    cluster.settle()
    assert counted(cluster) == (2, [1, 1, 0])


@pytest.mark.parametrize(
    ("fields", "policy", "reason"),
    [
        ({}, {}, "JobFailed"),
        ({"backoffLimit": 2}, {}, "TaskBackoffLimit"),
        ({"backoffLimit": "Unlimited"}, {"replicaBackoffLimit": 2}, "ReplicaBackoffLimit"),
    ],
)
def test_d15_one_that_fails_again_and_again_comes_to_a_limit(
    fields: Object, policy: Object, reason: str
) -> None:
    cluster = learners(limit=2, fields=fields, **policy)
    for times in (1, 2):
        cluster.crash(SECOND)
        cluster.settle()
        assert counted(cluster) == (times, [0, times, 0])
        cluster.begin_again(SECOND)
        if times == 2:
            cluster.settle()
    cluster.crash(SECOND, code=7)
    look(cluster)
    assert (cluster.phase, cluster.condition("Failed")["reason"]) == ("Failed", reason)
    assert "pod x-learner-1 failed first: exit code 7" in cluster.condition("Failed")["message"]


def test_d16_what_nobody_saw_counts_for_the_replica() -> None:
    cluster = learners(replicaBackoffLimit=3)
    cluster.restart(SECOND)
    cluster.restart(SECOND)
    cluster.restart(SECOND)
    cluster.settle()
    assert counted(cluster) == (1, [0, 3, 0])
    cluster = learners(replicaBackoffLimit=1)
    cluster.restart(SECOND)
    cluster.restart(SECOND)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "ReplicaBackoffLimit"


def by_code(code: int, action: str, **more: Any) -> Object:
    return {"onExitCodes": {"operator": "In", "values": [code]}, "action": action, **more}


def replaced(cluster: ClusterModel, before: dict[str, str]) -> list[str]:
    """The pods that are others by now, once those that are told to end have."""
    for _ in range(2):
        for name, pod in [*cluster.pods.items()]:
            if "deletionTimestamp" in pod["metadata"]:
                cluster.end(name)
        cluster.settle()
    return [name for name, uid in uids(cluster).items() if before[name] != uid]


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
def test_d17_a_rule_before_it_does_what_it_says(
    action: str, who: list[str], restarts: int, reschedules: int, waits: bool
) -> None:
    cluster = learners(by_code(7, action))
    before = uids(cluster)
    cluster.crash(SECOND, code=7)
    if not waits:
        cluster.begin_again(SECOND)
    cluster.reconcile()
    # What it does until it is gone is nobody's business.
    cluster.begin_again(SECOND)
    cluster.restart(SECOND)
    cluster.settle()
    assert replaced(cluster, before) == who
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (restarts, reschedules)
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    assert world(cluster) == (2, [0, 1, 2])


def test_d17_fail_job_ends_it_and_memory_grows_in_another_pod() -> None:
    cluster = learners(by_code(7, "FailJob"))
    cluster.restart(SECOND, code=7)
    cluster.settle()
    assert cluster.condition("Failed")["reason"] == "PodFailurePolicy"

    limited = task("learner", 3)
    container = limited["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "1Gi"}}
    oom = {"onReasons": ["OOMKilled"], "growMemory": {"factor": 2}}
    cluster = running(limited, backoffLimit=9, failurePolicy={"rules": [oom, IN_PLACE]})
    before = uids(cluster)
    cluster.restart(SECOND, code=137, reason="OOMKilled")
    cluster.settle()
    assert replaced(cluster, before) == [SECOND]
    grown = cluster.pods[SECOND]["spec"]["containers"][0]["resources"]["limits"]
    assert grown == {"memory": "2Gi"}


def test_d18_a_pod_that_has_ended_as_a_whole_is_judged_by_the_rules_after_it() -> None:
    ignored = {"onReasons": ["Evicted"], "action": "Ignore"}
    policy = {"rules": [IN_PLACE, ignored]}
    cluster = running(task("learner", 3), backoffLimit=9, failurePolicy=policy)
    before = uids(cluster)
    cluster.evict(SECOND)
    cluster.settle()
    assert replaced(cluster, before) == [SECOND]
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (0, 1)
    cluster.run()
    cluster.settle()
    before = uids(cluster)
    cluster.fail(THIRD)
    cluster.settle()
    assert replaced(cluster, before) == [THIRD]
    assert cluster.status["restarts"] == 1


def test_d19_success_is_what_it_was() -> None:
    cluster = learners()
    cluster.restart(SECOND)
    cluster.settle()
    members = group(cluster)["members"]
    for name in (SECOND, FIRST, THIRD):
        status = cluster.pods[name]["status"]
        cluster.objects["Pod", name]["status"] = {**status, "phase": "Succeeded"}
        cluster.reconcile()
    cluster.settle()
    assert cluster.phase == "Succeeded"
    assert (group(cluster)["generation"], group(cluster)["members"]) == (2, members)


def test_a_rule_that_comes_later_is_for_the_pods_that_are_made_then() -> None:
    cluster = running(task("learner", 3), backoffLimit=9)
    assert "groups" not in cluster.status
    assert {pod["spec"]["restartPolicy"] for pod in cluster.pods.values()} == {"Never"}
    cluster.edit(failurePolicy={"rules": [IN_PLACE]})
    cluster.settle()
    assert world(cluster) == (1, [0, 1, 2])
    assert Reason.NODE_LISTS_RESTORED not in [each.reason for each in cluster.events]
    before = uids(cluster)
    cluster.fail(SECOND)
    cluster.settle()
    assert replaced(cluster, before) == [SECOND]
    assert cluster.pods[SECOND]["spec"]["restartPolicy"] == "OnFailure"
    cluster.run()
    cluster.settle()
    cluster.restart(SECOND)
    # And one that goes is for all of them: the pod is replaced.
    cluster.edit(failurePolicy={"rules": []})
    before = uids(cluster)
    cluster.settle()
    assert replaced(cluster, before) == [SECOND]
    assert cluster.pods[SECOND]["spec"]["restartPolicy"] == "Never"


def test_only_the_tasks_that_it_is_about_are_restarted_in_place() -> None:
    rule = {"tasks": ["learner"], **IN_PLACE}
    cluster = running(task("learner"), task("collector"), failurePolicy={"rules": [rule]})
    policies = {name: pod["spec"]["restartPolicy"] for name, pod in cluster.pods.items()}
    assert policies == {"x-learner-0": "OnFailure", "x-collector-0": "Never"}
    assert [*cluster.status["groups"]] == ["learner"]
    assert "DI_GROUP_FILE" not in cluster.env("x-collector-0")
    assert cluster.env("x-learner-0")["DI_GROUP_FILE"] == "/etc/diengine/nodes/groups.learner"


def test_sidecars_and_init_containers_are_not_judged() -> None:
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


def test_a_group_of_many_is_written_when_it_begins_and_when_it_is_there() -> None:
    group = {"processGroup": {"framework": "torch"}}
    cluster = ClusterModel(job(task("learner", 50, **group)))
    cluster.settle()
    cluster.writes.clear()
    for index in range(50):
        # Not ready yet, which would be told of after a while.
        cluster.say(f"x-learner-{index}", phase="Running")
        look(cluster)
    assert cluster.writes == ["status", "status", "replace ConfigMap"]
    assert world(cluster) == (1, [*range(50)])
