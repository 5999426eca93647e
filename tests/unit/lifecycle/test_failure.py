"""What a failure policy does about pods that fail: rows A, C and H of the acceptance scenarios."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.lifecycle.actions import Create
from di_operator.lifecycle.failure import counting
from di_operator.lifecycle.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, Object, running, task

RANK_1 = "x-learner-1"
COLLECTOR = "x-collector-7"
NOTE = "diengine/restart-attempt"
OOM = {"onReasons": ["OOMKilled"], "growMemory": {"factor": 2, "maxStep": "8Gi"}}


def with_memory(name: str, replicas: int, memory: str, **fields: Any) -> Object:
    made = task(name, replicas, **fields)
    container = made["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": memory, "cpu": "1"}}
    return made


def learners(*rules: Object, memory: str = "4Gi", **policy: Any) -> ClusterModel:
    policy = {"rules": list(rules), "replicaBackoffLimit": 3, **policy}
    return running(with_memory("learner", 2, memory), backoffLimit=9, failurePolicy=policy)


def collectors(
    *rules: Object, limit: int | str | None = "Unlimited", replicas: int = 100, **policy: Any
) -> ClusterModel:
    policy = {"rules": list(rules), "replicaBackoffLimit": 3, "resetAfterSeconds": 3600, **policy}
    own = {} if limit is None else {"backoffLimit": limit}
    return running(
        task("learner"), task("collector", replicas, **own), backoffLimit=3, failurePolicy=policy
    )


def fail(cluster: ClusterModel, name: str, *, ran: float = 5, **ended: Any) -> None:
    """A container ends with an error after it ran so long, and says so."""
    cluster.fail(name, code=ended.pop("code", 1), reason=ended.pop("reason", "Error"))
    (status,) = cluster.pods[name]["status"]["containerStatuses"]
    began = cluster.now - timedelta(seconds=ran)
    status["state"]["terminated"] |= {"startedAt": format_time(began), **ended}


def oom(cluster: ClusterModel, name: str) -> None:
    fail(cluster, name, code=137, reason="OOMKilled")


def come_back(cluster: ClusterModel) -> None:
    """What is to end ends, what is missing is made, and all of it runs."""
    for _ in range(3):
        cluster.settle()
        for name, pod in list(cluster.pods.items()):
            if "deletionTimestamp" in pod["metadata"]:
                cluster.end(name)
        cluster.pass_time(300)
    cluster.settle()
    cluster.run()
    cluster.settle()


def resources(cluster: ClusterModel, name: str) -> Any:
    return cluster.pods[name]["spec"]["containers"][0].get("resources")


def record(cluster: ClusterModel, task: str, index: int) -> Any:
    return cluster.status["replicaFailures"][task][str(index)]


def grown(cluster: ClusterModel) -> list[str]:
    return [event.message for event in cluster.events if event.reason is Reason.MEMORY_GROWN]


def test_a1_the_next_pod_of_an_oom_killed_replica_has_more_memory() -> None:
    cluster = learners(OOM)
    before = cluster.pods[RANK_1]["metadata"]
    oom(cluster, RANK_1)
    come_back(cluster)
    after = cluster.pods[RANK_1]["metadata"]
    assert after["uid"] != before["uid"]
    assert after["annotations"]["diengine/rank"] == before["annotations"]["diengine/rank"]
    assert resources(cluster, RANK_1) == {
        "requests": {"memory": "8Gi"},
        "limits": {"memory": "8Gi", "cpu": "1"},
    }
    assert resources(cluster, "x-learner-0") == {"limits": {"memory": "4Gi", "cpu": "1"}}
    assert record(cluster, "learner", 1)["restarts"] == 1
    assert "0" not in cluster.status["replicaFailures"]["learner"]
    assert grown(cluster) == [f"container di-container of {RANK_1}: 4Gi -> 8Gi"]
    assert cluster.phase == "Running"


def test_a2_each_step_is_bounded_and_the_replica_has_its_own_limit() -> None:
    cluster = learners(OOM)
    for memory in ("8Gi", "16Gi", "24Gi"):
        oom(cluster, RANK_1)
        come_back(cluster)
        assert resources(cluster, RANK_1)["limits"]["memory"] == memory
    oom(cluster, RANK_1)
    cluster.settle()
    assert cluster.phase == "Failed"
    failed = cluster.condition("Failed")
    assert failed["reason"] == "ReplicaBackoffLimit"
    assert failed["message"] == (
        f"replica {RANK_1} has used its 3 restarts (replicaBackoffLimit 3); pod {RANK_1} failed "
        "first: exit code 137 (OOMKilled)"
    )


def message_at_the_end_of_memory(cluster: ClusterModel) -> str:
    """Kill a replica that gets no more memory: its job has failed, and no pod is made."""
    oom(cluster, RANK_1)
    cluster.writes.clear()
    cluster.settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"]) == ("Failed", "OOMLimit")
    assert not [write for write in cluster.writes if write.startswith("create Pod")]
    return str(failed["message"])


def test_a3_with_all_the_memory_it_may_have_the_job_has_failed() -> None:
    cluster = learners({**OOM, "growMemory": {"factor": 2, "limit": "12Gi"}})
    for memory in ("8Gi", "12Gi"):
        oom(cluster, RANK_1)
        come_back(cluster)
        assert resources(cluster, RANK_1)["requests"]["memory"] == memory
    assert message_at_the_end_of_memory(cluster).startswith(
        "container di-container was OOM-killed with 12Gi of memory, the most that growMemory allows"
    )


def test_memory_grows_without_a_limit_as_far_as_a_node_has_it() -> None:
    cluster = learners({**OOM, "growMemory": {"factor": 2}})
    cluster.largest_node_memory = Decimal(10 * 2**30)
    oom(cluster, RANK_1)
    come_back(cluster)
    assert resources(cluster, RANK_1)["requests"]["memory"] == "8Gi"
    assert message_at_the_end_of_memory(cluster).startswith(
        "container di-container was OOM-killed with 8Gi of memory, and the largest node has 10Gi, "
        "less than what comes next; pod"
    )


@pytest.mark.parametrize(("limit", "largest"), [("64Gi", 4 * 2**30), (None, None)])
def test_a_limit_of_the_users_own_goes_before_what_nodes_have_and_so_does_not_knowing(
    limit: str | None, largest: int | None
) -> None:
    growth = {"factor": 2} | ({"limit": limit} if limit else {})
    cluster = learners({**OOM, "growMemory": growth})
    cluster.largest_node_memory = Decimal(largest) if largest else None
    oom(cluster, RANK_1)
    come_back(cluster)
    assert resources(cluster, RANK_1)["requests"]["memory"] == "8Gi"
    assert cluster.phase == "Running"


def test_a4_the_exit_code_alone_is_no_oom() -> None:
    # Whoever sends SIGKILL has it; also where the rule is about the code.
    cluster = learners({**OOM, "onReasons": [], "onExitCodes": {"operator": "In", "values": [137]}})
    fail(cluster, RANK_1, code=137)
    come_back(cluster)
    assert resources(cluster, RANK_1) == {"limits": {"memory": "4Gi", "cpu": "1"}}
    assert grown(cluster) == []
    assert record(cluster, "learner", 1) == {
        "restarts": 1,
        "lastFailure": record(cluster, "learner", 1)["lastFailure"],
    }


def test_a5_a_large_pod_is_restarted_all_the_same() -> None:
    cluster = learners(OOM, memory="100Gi")
    oom(cluster, RANK_1)
    come_back(cluster)
    assert resources(cluster, RANK_1)["limits"]["memory"] == "108Gi"
    assert cluster.phase == "Running"


@pytest.mark.parametrize("crash_after", range(1, 6))
def test_a6_an_oom_seen_twice_is_one(crash_after: int) -> None:
    cluster = learners(OOM)
    oom(cluster, RANK_1)
    old = [*cluster.pods.values()]
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
    # A list shows what the watch has shown already, and the other way round.
    for pods in (old, None):
        snapshot = cluster.snapshot(pods)
        if snapshot.status.counted:
            assert not [a for a in cluster.decide().actions if isinstance(a, Create)][1:]
    come_back(cluster)
    assert record(cluster, "learner", 1)["restarts"] == 1
    assert cluster.status["restarts"] == 1
    assert resources(cluster, RANK_1)["limits"]["memory"] == "8Gi"
    assert len(grown(cluster)) <= 1


def test_c1_a_pod_that_the_cluster_ends_is_replaced_and_not_counted() -> None:
    cluster = collectors({"onConditions": ["DisruptionTarget"], "action": "Ignore"})
    gone = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    fail(cluster, COLLECTOR, code=143)
    cluster.pods[COLLECTOR]["status"]["conditions"] = [gone]
    uid = cluster.pods[COLLECTOR]["metadata"]["uid"]
    come_back(cluster)
    assert cluster.pods[COLLECTOR]["metadata"]["uid"] != uid
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (0, 1)
    assert not {"replicaFailures", "taskRestarts", "jobRestarts"} & {*cluster.status}


def test_c2_a_pod_on_a_dead_node_does_not_hold_up_its_replacement() -> None:
    cluster = collectors()
    cluster.delete_pod(COLLECTOR)
    uid = cluster.pods[COLLECTOR]["metadata"]["uid"]
    gone = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.say(COLLECTOR, phase="Running", conditions=[gone])
    cluster.settle()
    assert cluster.pods[COLLECTOR]["metadata"]["uid"] == uid
    # Its grace period, and some time for a node that is only slow.
    cluster.pass_time(30 + 30)
    cluster.settle()
    assert cluster.pods[COLLECTOR]["metadata"]["uid"] != uid
    assert cluster.status["restarts"] == 0


def test_c3_a_node_is_avoided_for_an_hour() -> None:
    rule = {"onExitCodes": {"operator": "In", "values": [201]}, "avoidNode": True}
    cluster = collectors(rule, replicaBackoffLimit=9)
    cluster.pods[COLLECTOR]["spec"]["nodeName"] = "bad"
    fail(cluster, COLLECTOR, code=201)
    cluster.settle()
    name = {"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}
    required = {"nodeSelectorTerms": [{"matchFields": [name]}]}
    assert cluster.pods[COLLECTOR]["spec"]["affinity"] == {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    assert "affinity" not in cluster.pods["x-collector-6"]["spec"]
    assert record(cluster, "collector", 7)["restarts"] == 1
    cluster.pass_time(3600)
    cluster.run()
    cluster.settle()
    fail(cluster, COLLECTOR)
    come_back(cluster)
    assert "affinity" not in cluster.pods[COLLECTOR]["spec"]


def test_a_job_avoids_so_many_nodes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_AVOIDED_OF_JOB", 2)
    cluster = collectors({"avoidNode": True}, replicaBackoffLimit=9)
    for index in range(3):
        cluster.pods[f"x-collector-{index}"]["spec"]["nodeName"] = f"bad-{index}"
        fail(cluster, f"x-collector-{index}")
        come_back(cluster)
    avoided = [bool(record(cluster, "collector", index).get("avoid")) for index in range(3)]
    assert avoided == [True, True, False]
    assert record(cluster, "collector", 2)["restarts"] == 1
    # What is over is forgotten, and makes room.
    cluster.pass_time(3600)
    cluster.pods["x-collector-2"]["spec"]["nodeName"] = "bad-2"
    fail(cluster, "x-collector-2")
    come_back(cluster)
    avoided = [bool(record(cluster, "collector", index).get("avoid")) for index in range(3)]
    assert avoided == [False, False, True]


def test_c4_preemptions_are_no_failures() -> None:
    ignored = {"onConditions": ["DisruptionTarget"], "action": "Ignore"}
    cluster = running(task("learner"), backoffLimit=3, failurePolicy={"rules": [ignored]})
    for _ in range(10):
        fail(cluster, "x-learner-0", code=143)
        taken = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        cluster.pods["x-learner-0"]["status"]["conditions"] = [taken]
        come_back(cluster)
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (0, 10)
    for restarts in (1, 2, 3):
        fail(cluster, "x-learner-0")
        come_back(cluster)
        assert (cluster.phase, cluster.status["restarts"]) == ("Running", restarts)
    fail(cluster, "x-learner-0")
    cluster.settle()
    assert cluster.phase == "Failed"


def test_c5_pods_that_go_together_are_made_together() -> None:
    cluster = running(task("collector", 32))
    for index in range(30):
        cluster.delete_pod(f"x-collector-{index}", force=True)
    cluster.reconcile()
    made = [a for a in cluster.reconcile().actions if isinstance(a, Create)]
    assert len(made) == 30


def test_c6_the_end_of_a_pod_that_was_replaced_says_nothing() -> None:
    cluster = collectors()
    old = cluster.pods[COLLECTOR]
    fail(cluster, COLLECTOR)
    come_back(cluster)
    before, status = [*cluster.writes], cluster.status
    # The watch still shows it, and then its end.
    shown = [pod for name, pod in cluster.pods.items() if name != COLLECTOR]
    for pods in ([*shown, old, cluster.pods[COLLECTOR]], None):
        assert cluster.snapshot(pods).failed == ()
        cluster.settle()
    assert (cluster.writes, cluster.status) == (before, status)


def test_h1_failures_of_many_replicas_are_within_the_tasks_own_limit() -> None:
    cluster = collectors(limit=50)
    for index in range(4):
        fail(cluster, f"x-collector-{index}")
        come_back(cluster)
        cluster.pass_time(6 * 3600)
    assert cluster.phase == "Running"
    assert cluster.status["taskRestarts"] == {"collector": 4}
    # All of them are shown; none counts for the job.
    assert (cluster.status["restarts"], cluster.status["jobRestarts"]) == (4, 0)


def test_h2_one_replica_that_fails_again_and_again_ends_the_job() -> None:
    cluster = collectors(limit=50)
    for _ in range(3):
        fail(cluster, COLLECTOR)
        come_back(cluster)
        assert cluster.phase == "Running"
    fail(cluster, COLLECTOR, code=3, message="Traceback\n  line 1\n\nKeyError: 'reward'\n")
    cluster.settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"]) == ("Failed", "ReplicaBackoffLimit")
    assert failed["message"] == (
        f"replica {COLLECTOR} has used its 3 restarts (replicaBackoffLimit 3); pod {COLLECTOR} "
        "failed first: exit code 3; its last lines: Traceback / line 1 / KeyError: 'reward'"
    )


def test_h3_a_replica_that_ran_long_starts_from_zero() -> None:
    cluster = collectors(limit=2)
    for _ in range(8):
        cluster.pass_time(7200)
        fail(cluster, COLLECTOR, ran=7000)
        come_back(cluster)
        assert cluster.phase == "Running"
    assert record(cluster, "collector", 7)["restarts"] == 1
    assert cluster.status["taskRestarts"] == {"collector": 1}


def test_h4_what_is_ignored_moves_no_counter() -> None:
    cluster = collectors({"onReasons": ["Evicted"], "action": "Ignore"}, limit=None)
    for _ in range(5):
        cluster.evict(COLLECTOR)
        come_back(cluster)
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 0)
    assert not {"replicaFailures", "taskRestarts", "jobRestarts"} & {*cluster.status}


def test_h4_a_program_that_always_crashes_and_is_ignored_is_waited_with() -> None:
    cluster = running(
        task("learner"),
        task("collector", 100),
        failurePolicy={"rules": [{"tasks": ["collector"], "action": "Ignore"}]},
    )
    waited = []
    for _ in range(9):
        cluster.pass_time(2)
        uid = cluster.pods[COLLECTOR]["metadata"]["uid"]
        fail(cluster, COLLECTOR)
        came = cluster.now
        cluster.settle()
        while cluster.pods.get(COLLECTOR, {}).get("metadata", {}).get("uid") in (None, uid):
            if COLLECTOR in cluster.pods:
                cluster.end(COLLECTOR)
            else:
                left = cluster.decide().requeue_after
                assert left
                cluster.pass_time(left)
            cluster.settle()
        waited.append((cluster.now - came).total_seconds())
        cluster.run()
        cluster.settle()
        assert cluster.phase == "Running"
    assert waited == [0, 10, 14, 30, 62, 126, 254, 300, 300]
    assert cluster.status["restarts"] == 0
    assert not {"taskRestarts", "jobRestarts"} & {*cluster.status}
    assert record(cluster, "collector", 7)["restarts"] == 0

    # One that did not fail for ten minutes begins anew.
    cluster.pass_time(600)
    fail(cluster, COLLECTOR)
    come_back(cluster)
    assert cluster.phase == "Running"


def test_h5_a_rule_may_end_the_job_at_the_first_failure() -> None:
    three = {"operator": "In", "values": [3]}
    cluster = collectors({"tasks": ["learner"]}, {"onExitCodes": three, "action": "FailJob"})
    fail(cluster, "x-learner-0", code=3)
    come_back(cluster)
    assert cluster.phase == "Running"
    fail(cluster, COLLECTOR, code=3, message="no licence")
    cluster.settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"]) == ("Failed", "PodFailurePolicy")
    assert failed["message"] == (
        f"failurePolicy.rules[1] ends the job; pod {COLLECTOR} failed first: exit code 3; "
        "its last lines: no licence"
    )


@pytest.mark.parametrize(("first", "phase"), [("Restart", "Running"), ("FailJob", "Failed")])
def test_h6_of_two_rules_that_fit_the_first_decides(first: str, phase: str) -> None:
    then = {"Restart": "FailJob", "FailJob": "Restart"}[first]
    not_zero = {"operator": "NotIn", "values": [0]}
    cluster = collectors(
        {"onReasons": ["Error"], "action": first}, {"onExitCodes": not_zero, "action": then}
    )
    fail(cluster, COLLECTOR)
    come_back(cluster)
    assert cluster.phase == phase


@pytest.mark.parametrize("crash_after", range(1, 9))
def test_h7_counters_growth_and_avoidance_survive_a_crash_at_every_write(crash_after: int) -> None:
    rule = {**OOM, "avoidNode": True}
    cluster = learners(rule)
    for name in ("x-learner-0", RANK_1):
        cluster.pods[name]["spec"]["nodeName"] = "bad"
    oom(cluster, RANK_1)
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
    for _ in range(crash_after):
        with suppress(Crash):
            cluster.reconcile(crash_after=1)
    come_back(cluster)
    found = record(cluster, "learner", 1)
    assert (found["restarts"], found["memory"]) == (1, {"di-container": "8Gi"})
    assert [each["node"] for each in found["avoid"]] == ["bad"]
    assert resources(cluster, RANK_1)["limits"]["memory"] == "8Gi"
    assert (cluster.status["restarts"], cluster.phase) == (1, "Running")


def test_the_limit_of_a_task_ends_the_job() -> None:
    cluster = collectors(limit=1, replicaBackoffLimit=9)
    fail(cluster, COLLECTOR)
    come_back(cluster)
    fail(cluster, "x-collector-3", code=4)
    fail(cluster, "x-collector-2", code=5)
    cluster.settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"]) == ("Failed", "TaskBackoffLimit")
    assert failed["message"] == (
        "task collector has used its 1 restarts (backoffLimit 1); pod x-collector-2 failed first: "
        "exit code 5"
    )


def test_failures_of_a_task_with_a_limit_of_its_own_do_not_count_for_the_job() -> None:
    cluster = collectors(replicaBackoffLimit=99)
    for _ in range(4):
        fail(cluster, COLLECTOR)
        come_back(cluster)
    assert cluster.phase == "Running"
    for used in (1, 2, 3):
        fail(cluster, "x-learner-0")
        come_back(cluster)
        assert cluster.status["jobRestarts"] == used
    fail(cluster, "x-learner-0")
    cluster.settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["reason"] == "JobFailed"


def test_failures_seen_together_count_once_for_the_task_and_for_each_replica() -> None:
    cluster = collectors(limit=9)
    for index in (1, 2, 3):
        fail(cluster, f"x-collector-{index}")
    come_back(cluster)
    assert cluster.status["taskRestarts"] == {"collector": 1}
    assert [record(cluster, "collector", index)["restarts"] for index in (1, 2, 3)] == [1, 1, 1]


def test_a_replica_that_fails_again_is_waited_with() -> None:
    cluster = collectors(replicaBackoffLimit=None)
    fail(cluster, COLLECTOR)
    cluster.settle()
    assert COLLECTOR in cluster.pods
    for pause in (10, 20, 40, 80, 160, 300, 300):
        fail(cluster, COLLECTOR)
        cluster.reconcile()
        restarting = cluster.condition("Restarting")["message"]
        assert restarting.endswith(f"{COLLECTOR} is made again after {pause} s")
        cluster.reconcile()
        assert COLLECTOR not in cluster.pods
        waiting = cluster.reconcile()
        assert waiting.actions == ()
        # It looks again before that if there are counts to write.
        assert waiting.requeue_after is not None
        assert 0 < waiting.requeue_after <= pause
        cluster.pass_time(pause - 1)
        cluster.reconcile()
        assert COLLECTOR not in cluster.pods
        cluster.pass_time(1)
        cluster.settle()
        assert COLLECTOR in cluster.pods


def test_a_group_is_replaced_as_a_whole_and_its_first_failure_counts() -> None:
    cluster = learners({"tasks": ["learner"], "action": "RestartTask"}, {})
    fail(cluster, RANK_1, code=7)
    cluster.pass_time(1)
    fail(cluster, "x-learner-0", code=8)
    cluster.reconcile()
    assert cluster.condition("Restarting")["message"] == (
        f"2 pods failed, restart 1 of 9; pod {RANK_1} failed first: exit code 7; all pods of task "
        "learner are replaced"
    )
    come_back(cluster)
    assert {*cluster.status["replicaFailures"]["learner"]} == {"1"}
    assert cluster.status["restartAttempts"] == {"learner": 1}
    notes = [pod["metadata"]["annotations"].get(NOTE) for pod in cluster.pods.values()]
    assert notes == ["1", "1"]
    assert (cluster.status["restarts"], cluster.phase) == (1, "Running")


def test_a_rule_may_restart_the_whole_job() -> None:
    cluster = collectors({"tasks": ["learner"], "action": "RestartJob"}, replicas=3)
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    fail(cluster, "x-learner-0")
    come_back(cluster)
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    assert all(after[name] != uid for name, uid in before.items())
    assert cluster.status["restartAttempts"] == {"learner": 1, "collector": 1}


def test_a_rule_goes_before_the_table_that_all_jobs_have() -> None:
    cluster = collectors({"onReasons": ["Evicted"], "action": "Restart"}, limit=None)
    cluster.evict(COLLECTOR)
    come_back(cluster)
    assert (cluster.status["restarts"], cluster.status["reschedules"]) == (1, 0)


def test_an_init_container_is_judged_and_grows_too() -> None:
    made = with_memory("learner", 2, "4Gi")
    made["template"]["spec"]["initContainers"] = [
        {"name": "prepare", "image": "p", "resources": {"limits": {"memory": "512Mi"}}}
    ]
    cluster = running(made, failurePolicy={"rules": [OOM]})
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": format_time(cluster.now)}
    statuses = [{"name": "prepare", "state": {"terminated": ended}}]
    cluster.say(RANK_1, phase="Failed", initContainerStatuses=statuses)
    come_back(cluster)
    (init,) = cluster.pods[RANK_1]["spec"]["initContainers"]
    assert init["resources"]["limits"]["memory"] == "1Gi"
    assert resources(cluster, RANK_1) == {"limits": {"memory": "4Gi", "cpu": "1"}}


def test_the_kubelet_is_asked_to_keep_the_last_lines_where_there_is_a_policy() -> None:
    def policies(cluster: ClusterModel) -> set[Any]:
        containers = [pod["spec"]["containers"][0] for pod in cluster.pods.values()]
        return {container.get("terminationMessagePolicy") for container in containers}

    assert policies(learners()) == {"FallbackToLogsOnError"}
    assert policies(running(task("learner"))) == {None}
    theirs = task("learner")
    theirs["template"]["spec"]["containers"][0]["terminationMessagePolicy"] = "File"
    assert policies(running(theirs, failurePolicy={})) == {"File"}


@pytest.mark.parametrize(
    "written",
    [
        {"replicaFailures": "x", "taskRestarts": 3, "jobRestarts": "x"},
        {"replicaFailures": {"learner": "x"}, "taskRestarts": {"learner": -1}},
        {"replicaFailures": {"learner": {"1": "x"}}},
        {"replicaFailures": {"learner": {"1": {"memory": {"di-container": "lots"}}}}},
        {"replicaFailures": {"learner": {"1": {"memory": 3, "avoid": [3, {"node": ""}]}}}},
    ],
)
def test_what_cannot_be_read_of_the_status_counts_as_absent(written: Any) -> None:
    cluster = learners(OOM)
    cluster.job["status"].update(written)
    oom(cluster, RANK_1)
    come_back(cluster)
    assert record(cluster, "learner", 1)["restarts"] == 1
    assert resources(cluster, RANK_1)["limits"]["memory"] == "8Gi"
    assert cluster.phase == "Running"
