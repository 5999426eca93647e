"""What a failure policy does about pods that fail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.lifecycle.failure import backoff_limit as counting
from di_operator.lifecycle.vocabulary.actions import Create
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, running, task
from tests.unit.lifecycle.kubelet_model import Object

RANK_1 = "x-learner-1"
COLLECTOR = "x-collector-7"
NOTE = "diengine/restart-attempt"
GONE = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
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
    *rules: Object, limit: int | str | None = "Unlimited", replicas: int = 9, **policy: Any
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
        cluster.end_deleted().pass_time(300)
    cluster.settle().run().settle()


def resources(cluster: ClusterModel, name: str) -> Any:
    return cluster.pods[name]["spec"]["containers"][0].get("resources")


def record(cluster: ClusterModel, task: str, index: int) -> Any:
    return cluster.status["replicaFailures"][task][str(index)]


def grown(cluster: ClusterModel) -> list[str]:
    return [event.message for event in cluster.events if event.reason is Reason.MEMORY_GROWN]


@pytest.mark.proves("dijob.md#spec-failurepolicy/onconditions")
@pytest.mark.parametrize(
    "ignored", [{"onConditions": ["DisruptionTarget"]}, {"onReasons": ["Error"]}], ids=str
)
@pytest.mark.parametrize("limit", ["Unlimited", None])
def test_an_ignored_failure_is_a_reschedule_and_moves_no_counter(
    ignored: Object, limit: str | None
) -> None:
    cluster = collectors({**ignored, "action": "Ignore"}, limit=limit)
    uid = cluster.uids[COLLECTOR]
    fail(cluster, COLLECTOR, code=143)
    cluster.pods[COLLECTOR]["status"]["conditions"] = [GONE]
    come_back(cluster)
    assert cluster.uids[COLLECTOR] != uid
    assert (cluster.phase, cluster.counts) == ("Running", (0, 1))
    assert not {"taskRestarts", "jobRestarts"} & {*cluster.status}
    assert record(cluster, "collector", 7)["restarts"] == 0


def test_a_pod_on_a_dead_node_is_replaced_after_its_grace_period() -> None:
    cluster = collectors().delete_pod(COLLECTOR)
    uid = cluster.uids[COLLECTOR]
    cluster.say(COLLECTOR, phase="Running", conditions=[GONE]).settle()
    assert cluster.uids[COLLECTOR] == uid
    # Its grace period, and some time for a node that is only slow.
    cluster.pass_time(30 + 30).settle()
    assert cluster.uids[COLLECTOR] != uid
    assert cluster.status["restarts"] == 0


@pytest.mark.proves("dijob.md#spec-failurepolicy/avoidnode", "dijob.md#status/avoidednodes")
def test_a_failed_replica_avoids_its_node_for_an_hour() -> None:
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
    cluster.pass_time(3600).run().settle()
    fail(cluster, COLLECTOR)
    come_back(cluster)
    assert "affinity" not in cluster.pods[COLLECTOR]["spec"]


def test_the_number_of_avoided_nodes_of_a_job_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_pods_that_vanish_together_are_made_in_one_reconcile() -> None:
    cluster = running(task("collector", 32))
    for index in range(30):
        cluster.delete_pod(f"x-collector-{index}", force=True)
    cluster.reconcile()
    made = [a for a in cluster.reconcile().actions if isinstance(a, Create)]
    assert len(made) == 30


def test_a_late_event_of_a_replaced_pod_changes_nothing() -> None:
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


@pytest.mark.proves(
    "lifecycle.md#failure/failurepolicy-replicabackofflimit",
    "dijob.md#spec-failurepolicy/replicabackofflimit",
    "events.md#of-its-life/replicabackofflimit",
)
def test_a_replica_over_its_backoff_limit_fails_the_job() -> None:
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


@pytest.mark.proves("dijob.md#spec-failurepolicy/resetafterseconds")
def test_a_replica_that_ran_long_enough_resets_its_count() -> None:
    cluster = collectors(limit=2)
    for _ in range(8):
        cluster.pass_time(7200)
        fail(cluster, COLLECTOR, ran=7000)
        come_back(cluster)
        assert cluster.phase == "Running"
    assert record(cluster, "collector", 7)["restarts"] == 1
    assert cluster.status["taskRestarts"] == {"collector": 1}


def test_ignored_failures_are_retried_with_exponential_backoff() -> None:
    cluster = running(
        task("learner"),
        task("collector", 9),
        failurePolicy={"rules": [{"tasks": ["collector"], "action": "Ignore"}]},
    )
    waited = []
    for _ in range(9):
        cluster.pass_time(2)
        uid = cluster.uids[COLLECTOR]
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
        cluster.run().settle()
        assert cluster.phase == "Running"
    assert waited == [0, 10, 14, 30, 62, 126, 254, 300, 300]
    assert cluster.status["restarts"] == 0
    assert not {"taskRestarts", "jobRestarts"} & {*cluster.status}
    assert record(cluster, "collector", 7)["restarts"] == 0
    # The backoff starts from zero after ten minutes without a failure.
    cluster.pass_time(600)
    fail(cluster, COLLECTOR)
    come_back(cluster)
    assert cluster.phase == "Running"


@pytest.mark.proves(
    "lifecycle.md#failure/a-rule-with-failjob",
    "dijob.md#spec-failurepolicy/action",
    "events.md#of-its-life/podfailurepolicy",
)
def test_a_fail_job_rule_fails_the_job_at_the_first_failure() -> None:
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


@pytest.mark.parametrize(("code", "phase"), [(1, "Failed"), (127, "Failed"), (128, "Running")])
def test_exit_codes_may_be_a_range(code: int, phase: str) -> None:
    permanent = {"operator": "In", "values": ["1-127"]}
    cluster = collectors({"onExitCodes": permanent, "action": "FailJob"})
    fail(cluster, COLLECTOR, code=code)
    come_back(cluster)
    assert cluster.phase == phase


@pytest.mark.proves("dijob.md#spec-failurepolicy/rules", "dijob.md#spec-failurepolicy/tasks")
@pytest.mark.parametrize(("first", "phase"), [("Restart", "Running"), ("FailJob", "Failed")])
def test_the_first_matching_rule_decides(first: str, phase: str) -> None:
    then = {"Restart": "FailJob", "FailJob": "Restart"}[first]
    not_zero = {"operator": "NotIn", "values": [0]}
    cluster = collectors(
        {"onReasons": ["Error"], "action": first}, {"onExitCodes": not_zero, "action": then}
    )
    fail(cluster, COLLECTOR)
    come_back(cluster)
    assert cluster.phase == phase


@pytest.mark.proves(
    "lifecycle.md#failure/tasks-backofflimit",
    "dijob.md#spec-tasks/backofflimit",
    "events.md#of-its-life/taskbackofflimit",
)
def test_a_task_over_its_backoff_limit_fails_the_job() -> None:
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


@pytest.mark.proves("events.md#of-its-life/jobfailed")
def test_the_job_limit_counts_only_tasks_without_a_limit_of_their_own() -> None:
    cluster = collectors(replicaBackoffLimit=99)
    for _ in range(4):
        fail(cluster, COLLECTOR)
        come_back(cluster)
    assert (cluster.phase, cluster.status["taskRestarts"]) == ("Running", {"collector": 4})
    for used in (1, 2, 3):
        fail(cluster, "x-learner-0")
        come_back(cluster)
        assert cluster.status["jobRestarts"] == used
    fail(cluster, "x-learner-0")
    cluster.settle()
    assert (cluster.phase, cluster.condition("Failed")["reason"]) == ("Failed", "JobFailed")


def test_failures_seen_together_count_once_per_task_and_replica() -> None:
    cluster = collectors(limit=9)
    for index in (1, 2, 3):
        fail(cluster, f"x-collector-{index}")
    come_back(cluster)
    assert cluster.status["taskRestarts"] == {"collector": 1}
    assert [record(cluster, "collector", index)["restarts"] for index in (1, 2, 3)] == [1, 1, 1]


def test_a_replica_that_fails_again_is_retried_with_exponential_backoff() -> None:
    cluster = collectors(replicaBackoffLimit=None)
    fail(cluster, COLLECTOR)
    cluster.settle()
    assert COLLECTOR in cluster.pods
    for pause in (10, 20, 40, 80, 160, 300, 300):
        fail(cluster, COLLECTOR)
        cluster.reconcile()
        restarting = cluster.condition("Restarting")["message"]
        assert restarting.endswith(f"{COLLECTOR} is created again after {pause} s")
        cluster.reconcile()
        assert COLLECTOR not in cluster.pods
        waiting = cluster.reconcile()
        assert waiting.actions == ()
        # It looks again before that if there are counts to write.
        assert waiting.requeue_after is not None
        assert 0 < waiting.requeue_after <= pause
        cluster.pass_time(pause - 1).reconcile()
        assert COLLECTOR not in cluster.pods
        cluster.pass_time(1).settle()
        assert COLLECTOR in cluster.pods


def test_restart_task_replaces_all_pods_and_counts_the_first_failure() -> None:
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
    assert (notes, cluster.status["restarts"], cluster.phase) == (["1", "1"], 1, "Running")


def test_restart_job_replaces_the_pods_of_all_tasks() -> None:
    cluster = collectors({"tasks": ["learner"], "action": "RestartJob"}, replicas=3)
    before = {*cluster.uids.values()}
    fail(cluster, "x-learner-0")
    cluster.reconcile()
    message = cluster.condition("Restarting")["message"]
    assert message.endswith("all pods of tasks collector, learner are replaced")
    come_back(cluster)
    assert not before & {*cluster.uids.values()}
    assert cluster.status["restartAttempts"] == {"learner": 1, "collector": 1}


def test_a_rule_of_the_job_precedes_the_built_in_rules() -> None:
    cluster = collectors({"onReasons": ["Evicted"], "action": "Restart"}, limit=None)
    cluster.evict(COLLECTOR)
    come_back(cluster)
    assert cluster.counts == (1, 0)


def test_pods_of_a_job_with_a_policy_keep_their_log_tail() -> None:
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
def test_unreadable_failure_records_count_as_absent(written: Any) -> None:
    cluster = learners(OOM)
    cluster.job["status"].update(written)
    oom(cluster, RANK_1)
    come_back(cluster)
    assert record(cluster, "learner", 1)["restarts"] == 1
    assert resources(cluster, RANK_1)["limits"]["memory"] == "8Gi"
    assert cluster.phase == "Running"


def test_a_pod_without_an_exit_code_matches_no_rule_about_codes() -> None:
    not_zero = {"operator": "NotIn", "values": [0]}
    cluster = collectors({"onExitCodes": not_zero, "action": "FailJob"})
    cluster.reject(COLLECTOR)
    come_back(cluster)
    assert (cluster.phase, cluster.counts) == ("Running", (0, 1))
