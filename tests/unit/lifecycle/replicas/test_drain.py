"""Replicas that are asked to drain: out of their Service first, deleted a moment later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_kube.resources import PODS
from di_operator.lifecycle.policies.drain import LEAVE_SECONDS
from di_operator.lifecycle.vocabulary.actions import Delete
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task
from tests.unit.lifecycle.objects.test_task_services import PORTS, behind

DRAIN = {"path": "/drain", "port": 8000, "timeoutSeconds": 20}
IN_SERVICE, LEFT = "diengine/in-service", "diengine/left-service"
Object = dict[str, Any]


def rollout(replicas: int = 3, **fields: Any) -> Object:
    return task("rollout", replicas, **{"service": {"ports": PORTS}, "drain": DRAIN, **fields})


def listed(cluster: ClusterModel) -> list[str]:
    return sorted(behind(cluster, "x-rollout"))


def metadata(cluster: ClusterModel, pod: str) -> Object:
    found: Object = cluster.pods[pod]["metadata"]
    return found


def deletes(cluster: ClusterModel) -> list[str]:
    return [write.removeprefix("delete Pod ") for write in cluster.writes if "delete Pod" in write]


def pod_deletes(cluster: ClusterModel) -> list[Delete]:
    """What the operator would delete now."""
    found = (each for each in cluster.decide().actions if isinstance(each, Delete))
    return [each for each in found if each.resource == PODS]


@pytest.mark.proves(
    "roles.md#leaving-well/path-port",
    "roles.md#leaving-well/timeoutseconds",
    "dijob.md#spec-tasks/drain-path",
    "dijob.md#spec-tasks/drain-port",
    "dijob.md#spec-tasks/drain-timeoutseconds",
)
def test_a_drain_hook_extends_the_grace_period() -> None:
    cluster = running(rollout(1), task("learner"))
    spec = cluster.pods["x-rollout-0"]["spec"]
    hook = {"httpGet": {"path": "/drain", "port": 8000}}
    assert spec["containers"][0]["lifecycle"] == {"preStop": hook}
    assert spec["terminationGracePeriodSeconds"] == 30 + 20
    plain = cluster.pods["x-learner-0"]["spec"]
    assert "lifecycle" not in plain["containers"][0]
    assert "terminationGracePeriodSeconds" not in plain


@pytest.mark.proves("roles.md#leaving-well/command", "dijob.md#spec-tasks/drain-command")
def test_a_command_is_run_in_the_main_container_alone() -> None:
    containers = [
        {"name": "proxy", "image": "a"},
        {"name": "di-container", "image": "b", "lifecycle": {"postStart": {"exec": {}}}},
    ]
    template = {"spec": {"containers": containers, "terminationGracePeriodSeconds": 5}}
    cluster = running(rollout(1, drain={"command": ["drain", "-a"]}, template=template))
    spec = cluster.pods["x-rollout-0"]["spec"]
    hooks = [container.get("lifecycle") for container in spec["containers"]]
    assert hooks == [
        None,
        {"preStop": {"exec": {"command": ["drain", "-a"]}}, "postStart": {"exec": {}}},
    ]
    assert spec["terminationGracePeriodSeconds"] == 5 + 30


@pytest.mark.parametrize("drain", [{}, {"path": "/drain"}, {"command": []}])
def test_a_drain_without_a_path_or_command_adds_no_hook(drain: Object) -> None:
    cluster = running(task("learner"))
    cluster.edit(tasks=[task("learner"), rollout(1, drain=drain)]).settle()
    assert "lifecycle" not in cluster.pods["x-rollout-0"]["spec"]["containers"][0]


def test_a_hook_of_the_template_which_admission_refuses_stays() -> None:
    own = {"preStop": {"exec": {"command": ["own"]}}}
    container = {"name": "di-container", "image": "a", "lifecycle": own}
    cluster = running(task("learner"))
    cluster.edit(
        tasks=[task("learner"), rollout(1, template={"spec": {"containers": [container]}})]
    )
    cluster.settle()
    assert cluster.pods["x-rollout-0"]["spec"]["containers"][0]["lifecycle"] == own


@pytest.mark.proves("lifecycle.md#leaving-a-service", "roles.md#leaving-well/taken-are")
def test_a_replica_leaves_its_service_and_is_deleted_when_the_time_is_over() -> None:
    cluster = running(rollout()).scale("rollout", 1).wait(0)
    assert (listed(cluster), deletes(cluster)) == (["x-rollout-0"], [])
    assert metadata(cluster, "x-rollout-2")["annotations"][LEFT] == format_time(cluster.now)
    assert LEAVE_SECONDS - 1 < (cluster.decide().requeue_after or 0) <= LEAVE_SECONDS
    cluster.wait(LEAVE_SECONDS - 0.5)
    assert deletes(cluster) == []
    cluster.wait(0.5)
    assert deletes(cluster) == ["x-rollout-1", "x-rollout-2"]
    assert listed(cluster) == ["x-rollout-0"]
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 1)


def test_draining_costs_one_write_for_each_replica() -> None:
    cluster = running(rollout())
    plain = running(rollout(drain=None))
    for each in (cluster, plain):
        each.writes.clear()
        each.scale("rollout", 2).settle()
    added = [write for write in cluster.writes if write not in plain.writes]
    assert added == ["reclaim Pod x-rollout-2"]
    assert len(cluster.writes) == len(plain.writes) + 1


AT_ONCE: dict[str, tuple[Callable[[], ClusterModel], list[str]]] = {
    "no drain": (lambda: running(rollout(drain=None)).scale("rollout", 2), ["x-rollout-2"]),
    "no Service": (lambda: running(rollout(service=None)).scale("rollout", 2), ["x-rollout-2"]),
    "failed": (lambda: running(rollout()).fail("x-rollout-1"), ["x-rollout-1"]),
    "not running": (
        lambda: ClusterModel(job(rollout())).settle().run("x-rollout-0").scale("rollout", 1),
        ["x-rollout-1", "x-rollout-2"],
    ),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_a_pod_without_clients_is_deleted_at_once(case: str) -> None:
    start, deleted = AT_ONCE[case]
    assert deletes(start().wait(0)) == deleted


@pytest.mark.proves("roles.md#leaving-well/not-asked-are")
@pytest.mark.proves("events.md#of-its-life/metadatarestored")
def test_a_replica_desired_again_in_time_returns_to_its_service() -> None:
    cluster = running(rollout())
    before = cluster.uids
    cluster.scale("rollout", 1).wait(0)
    cluster.scale("rollout", 2)
    cluster.events.clear()
    cluster.wait(0)
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1"]
    assert LEFT not in metadata(cluster, "x-rollout-1")["annotations"]
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-2"]
    assert metadata(cluster, "x-rollout-1")["uid"] == before["x-rollout-1"]
    assert "MetadataRestored" not in {event.reason for event in cluster.events}


def test_the_label_is_not_restored_during_a_drain() -> None:
    cluster = running(rollout(), preemptible=False).edit(suspend=True).wait(0)
    assert listed(cluster) == []
    cluster.writes.clear()
    cluster.wait(1)
    assert cluster.writes == []
    assert "MetadataRestored" not in {event.reason for event in cluster.events}


def test_a_replica_that_succeeded_while_draining_stays() -> None:
    cluster = running(rollout(2)).scale("rollout", 1).wait(0)
    cluster.succeed("x-rollout-1").scale("rollout", 2).settle()
    assert deletes(cluster) == []
    assert cluster.decide().requeue_after is None


def test_a_label_restored_by_a_user_is_removed_again() -> None:
    cluster = running(rollout()).scale("rollout", 2).wait(0)
    metadata(cluster, "x-rollout-2")["labels"][IN_SERVICE] = "true"
    cluster.wait(LEAVE_SECONDS)
    assert (listed(cluster), deletes(cluster)) == (["x-rollout-0", "x-rollout-1"], [])
    cluster.wait(LEAVE_SECONDS)
    assert deletes(cluster) == ["x-rollout-2"]


@pytest.mark.parametrize("written", ["", "soon", "2026-01-01T18:00:00Z"])
def test_an_edited_drain_time_does_not_keep_a_replica(written: str) -> None:
    cluster = running(rollout()).scale("rollout", 2).wait(0)
    metadata(cluster, "x-rollout-2")["annotations"][LEFT] = written
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-2"]


def test_a_forged_drain_mark_removes_no_replica() -> None:
    cluster = running(rollout())
    metadata(cluster, "x-rollout-1")["annotations"][LEFT] = format_time(cluster.now)
    cluster.settle()
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1", "x-rollout-2"]
    assert LEFT not in metadata(cluster, "x-rollout-1")["annotations"]
    assert deletes(cluster) == []


def test_a_suspension_taken_back_restores_all_replicas() -> None:
    cluster = running(rollout(2)).edit(suspend=True).wait(0)
    assert (listed(cluster), deletes(cluster)) == ([], [])
    assert cluster.condition("Pending")["message"] == "suspended, 2 pods to end"
    cluster.edit(suspend=False).settle()
    assert (listed(cluster), deletes(cluster)) == (["x-rollout-0", "x-rollout-1"], [])
    assert cluster.phase == "Running"


def test_a_preemption_drains_before_it_deletes() -> None:
    cluster = ClusterModel(job(rollout(2), preemptible=True)).place(rollout="a b")
    cluster.settle().run().settle()
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1"]
    cluster.place().wait(0)
    assert (listed(cluster), deletes(cluster), cluster.phase) == ([], [], "Pending")
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-0", "x-rollout-1"]
    assert cluster.status["reschedules"] == 1


def test_a_moved_replica_drains_first() -> None:
    cluster = ClusterModel(job(rollout(2), preemptible=True)).place(rollout="a b")
    cluster.settle().run().settle()
    cluster.place(rollout="a c").wait(0)
    assert (listed(cluster), deletes(cluster)) == (["x-rollout-0"], [])
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-1"]
    cluster.end("x-rollout-1").settle()
    assert cluster.pods["x-rollout-1"]["metadata"]["annotations"]["diengine/node"] == "c"


def test_a_restarted_task_drains_first() -> None:
    rules = [{"tasks": ["rollout"], "action": "RestartTask"}]
    cluster = running(rollout(), failurePolicy={"rules": rules}).fail("x-rollout-0")
    cluster.wait(0)
    assert (listed(cluster), deletes(cluster)) == ([], ["x-rollout-0"])
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-0", "x-rollout-1", "x-rollout-2"]


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_a_finished_job_drains_within_the_templates_grace_period(end: str) -> None:
    cluster = running(task("learner"), rollout(1), backoffLimit=0, successPolicy=SOON)
    getattr(cluster, end)("x-learner-0")
    while cluster.phase not in ("Succeeded", "Failed"):
        cluster.reconcile()
    (left,) = pod_deletes(cluster)
    assert (left.name, left.grace_period_seconds) == ("x-rollout-0", 30)
    cluster.wait(0)
    assert deletes(cluster) == ["x-rollout-0"]


SOON = {"tasks": ["learner"], "gracePeriodSeconds": 0}


@pytest.mark.parametrize("written", ["0", "-1", "", "never", None])
def test_an_edited_grace_period_never_kills_at_once(written: str | None) -> None:
    cluster = running(task("learner"), rollout(1), backoffLimit=0)
    notes = metadata(cluster, "x-rollout-0")["annotations"]
    del notes["diengine/grace-seconds"]
    if written is not None:
        notes["diengine/grace-seconds"] = written
    cluster.fail("x-learner-0")
    while cluster.phase != "Failed":
        cluster.reconcile()
    (left,) = pod_deletes(cluster)
    assert left.grace_period_seconds in (None, 1)


@pytest.mark.parametrize("writes", range(1, 9))
def test_an_operator_that_dies_at_any_write_loses_no_drain(writes: int) -> None:
    cluster = running(rollout()).scale("rollout", 1)
    left, since = writes, dict.fromkeys(cluster.pods, cluster.now)
    for _ in range(20):
        before = len(cluster.writes)
        try:
            cluster.reconcile(crash_after=left)
        except Crash:
            break
        left -= len(cluster.writes) - before
        for name in listed(cluster):
            since[name] = cluster.now
        cluster.now += timedelta(seconds=0.5)
    for _ in range(20):
        cluster.reconcile()
        for name in listed(cluster):
            since[name] = cluster.now
        gone = [name for name in since if f"delete Pod {name}" in cluster.writes]
        assert all(cluster.now - since[name] >= timedelta(seconds=2) for name in gone)
        cluster.now += timedelta(seconds=0.5)
    assert deletes(cluster) == ["x-rollout-1", "x-rollout-2"]
    assert listed(cluster) == ["x-rollout-0"]


# --- replicas of several pods ---


def groups(select: str, **fields: Any) -> Object:
    service = {"ports": PORTS, "select": select}
    return rollout(2, **{"podsPerReplica": 2, "service": service, **fields})


FIRST = ["x-rollout-0-0", "x-rollout-0-1"]
SECOND = ["x-rollout-1-0", "x-rollout-1-1"]


def test_only_leaders_drain_if_the_service_lists_leaders() -> None:
    cluster = running(groups("Leaders"))
    asked = {
        name
        for name, pod in cluster.pods.items()
        if "lifecycle" in pod["spec"]["containers"][0]
        and pod["spec"]["terminationGracePeriodSeconds"] == 50
    }
    assert asked == {FIRST[0], SECOND[0]}


def test_the_others_of_a_replica_follow_its_leader() -> None:
    cluster = running(groups("Leaders")).scale("rollout", 1).settle()
    assert (listed(cluster), deletes(cluster)) == ([FIRST[0]], [SECOND[0]])
    cluster.wait(20)
    assert deletes(cluster) == [SECOND[0]]
    cluster.end(SECOND[0]).settle()
    assert deletes(cluster) == SECOND


def test_the_others_of_a_replica_follow_a_deleted_leader() -> None:
    cluster = running(groups("Leaders")).delete_pod(SECOND[0]).settle()
    assert deletes(cluster) == []
    cluster.end(SECOND[0]).settle()
    assert deletes(cluster) == [SECOND[1]]
    cluster.end(SECOND[1]).settle().run().settle()
    assert (listed(cluster), cluster.phase) == ([FIRST[0], SECOND[0]], "Running")


def test_a_leader_that_failed_is_not_waited_for() -> None:
    cluster = running(groups("Leaders")).fail(SECOND[0]).settle()
    assert sorted(deletes(cluster)) == SECOND


def test_all_pods_of_a_replica_leave_together_where_all_are_listed() -> None:
    cluster = running(groups("All")).scale("rollout", 1).wait(0)
    assert (listed(cluster), deletes(cluster)) == (FIRST, [])
    cluster.wait(LEAVE_SECONDS)
    assert deletes(cluster) == SECOND


def test_leaders_of_replicas_of_one_pod_go_on_their_own() -> None:
    service = {"ports": PORTS, "select": "Leaders"}
    cluster = running(rollout(3, service=service)).edit(suspend=True).wait(0)
    cluster.wait(LEAVE_SECONDS)
    assert len(deletes(cluster)) == 3
