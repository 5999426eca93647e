"""Replicas that are asked to drain: out of their Service first, deleted a moment later."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from di_api.kube.resources import PODS
from di_api.timestamps import format_time
from di_operator.lifecycle.actions import Delete
from di_operator.lifecycle.drain import LEAVE_SECONDS
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, running, task
from tests.unit.lifecycle.test_task_services import PORTS, behind

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


def looks(cluster: ClusterModel) -> None:
    """The operator does all it may do without a second passing."""
    cluster.wait(0)


def test_the_kubelet_asks_and_has_the_time_of_both() -> None:
    cluster = running(rollout(1), task("learner"))
    spec = cluster.pods["x-rollout-0"]["spec"]
    hook = {"httpGet": {"path": "/drain", "port": 8000}}
    assert spec["containers"][0]["lifecycle"] == {"preStop": hook}
    assert spec["terminationGracePeriodSeconds"] == 30 + 20
    plain = cluster.pods["x-learner-0"]["spec"]
    assert "lifecycle" not in plain["containers"][0]
    assert "terminationGracePeriodSeconds" not in plain


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
def test_one_that_says_nothing_which_no_api_server_takes_is_asked_nothing(drain: Object) -> None:
    cluster = running(task("learner"))
    cluster.edit(tasks=[task("learner"), rollout(1, drain=drain)])
    cluster.settle()
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


def test_a_replica_leaves_its_service_and_is_deleted_when_the_time_is_over() -> None:
    cluster = running(rollout())
    cluster.scale("rollout", 1)
    looks(cluster)
    assert listed(cluster) == ["x-rollout-0"]
    assert deletes(cluster) == []
    assert metadata(cluster, "x-rollout-2")["annotations"][LEFT] == format_time(cluster.now)
    cluster.wait(LEAVE_SECONDS - 0.5)
    assert deletes(cluster) == []
    cluster.wait(0.5)
    assert deletes(cluster) == ["x-rollout-1", "x-rollout-2"]
    assert listed(cluster) == ["x-rollout-0"]
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 1)


def test_the_operator_comes_back_when_the_time_is_over() -> None:
    cluster = running(rollout())
    cluster.scale("rollout", 2)
    looks(cluster)
    delay = cluster.decide().requeue_after
    assert delay is not None
    assert 0 < delay <= LEAVE_SECONDS


def test_it_costs_one_write_for_each_that_leaves_and_none_for_the_others() -> None:
    cluster = running(rollout())
    plain = running(rollout(drain=None))
    for each in (cluster, plain):
        each.writes.clear()
        each.scale("rollout", 2)
        each.settle()
    added = [write for write in cluster.writes if write not in plain.writes]
    assert added == ["reclaim Pod x-rollout-2"]
    assert len(cluster.writes) == len(plain.writes) + 1


def test_without_a_drain_nothing_waits() -> None:
    cluster = running(rollout(drain=None))
    cluster.scale("rollout", 2)
    looks(cluster)
    assert deletes(cluster) == ["x-rollout-2"]


def test_without_a_service_nothing_waits() -> None:
    cluster = running(rollout(service=None))
    cluster.scale("rollout", 2)
    looks(cluster)
    assert deletes(cluster) == ["x-rollout-2"]


def test_what_does_not_run_goes_at_once() -> None:
    cluster = ClusterModel(job(rollout()))
    cluster.settle()
    cluster.run("x-rollout-0")
    cluster.scale("rollout", 1)
    looks(cluster)
    assert deletes(cluster) == ["x-rollout-1", "x-rollout-2"]


def test_one_that_failed_goes_at_once() -> None:
    cluster = running(rollout())
    cluster.fail("x-rollout-1")
    looks(cluster)
    assert deletes(cluster) == ["x-rollout-1"]


def test_one_that_is_wanted_again_in_time_is_put_back() -> None:
    cluster = running(rollout())
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}
    cluster.scale("rollout", 1)
    looks(cluster)
    cluster.scale("rollout", 2)
    cluster.events.clear()
    looks(cluster)
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1"]
    assert LEFT not in metadata(cluster, "x-rollout-1")["annotations"]
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-2"]
    assert metadata(cluster, "x-rollout-1")["uid"] == before["x-rollout-1"]
    assert "MetadataRestored" not in {event.reason for event in cluster.events}


def test_nobody_puts_the_label_back_while_it_waits() -> None:
    cluster = running(rollout(), preemptible=False)
    cluster.edit(suspend=True)
    looks(cluster)
    assert listed(cluster) == []
    cluster.writes.clear()
    cluster.wait(1)
    assert cluster.writes == []
    assert "MetadataRestored" not in {event.reason for event in cluster.events}


def test_one_that_ends_by_itself_and_is_wanted_again_is_done() -> None:
    cluster = running(rollout(2))
    cluster.scale("rollout", 1)
    looks(cluster)
    cluster.succeed("x-rollout-1")
    cluster.scale("rollout", 2)
    cluster.settle()
    assert deletes(cluster) == []
    assert cluster.decide().requeue_after is None


def test_a_label_that_somebody_puts_back_is_taken_off_again() -> None:
    cluster = running(rollout())
    cluster.scale("rollout", 2)
    looks(cluster)
    metadata(cluster, "x-rollout-2")["labels"][IN_SERVICE] = "true"
    cluster.wait(LEAVE_SECONDS)
    assert (listed(cluster), deletes(cluster)) == (["x-rollout-0", "x-rollout-1"], [])
    cluster.wait(LEAVE_SECONDS)
    assert deletes(cluster) == ["x-rollout-2"]


@pytest.mark.parametrize("written", ["", "soon", "2026-01-01T18:00:00Z"])
def test_a_time_that_somebody_edits_does_not_keep_a_replica(written: str) -> None:
    cluster = running(rollout())
    cluster.scale("rollout", 2)
    looks(cluster)
    metadata(cluster, "x-rollout-2")["annotations"][LEFT] = written
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-2"]


def test_a_mark_that_somebody_makes_takes_nothing_away() -> None:
    cluster = running(rollout())
    metadata(cluster, "x-rollout-1")["annotations"][LEFT] = format_time(cluster.now)
    cluster.settle()
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1", "x-rollout-2"]
    assert LEFT not in metadata(cluster, "x-rollout-1")["annotations"]
    assert deletes(cluster) == []


def test_suspension_takes_all_out_first_and_ends_them_then() -> None:
    cluster = running(rollout(2), task("learner"))
    cluster.edit(suspend=True)
    looks(cluster)
    assert (listed(cluster), deletes(cluster)) == ([], ["x-learner-0"])
    told = cluster.condition("Pending")["message"]
    assert told == "suspended, 3 pods to end"
    cluster.wait(LEAVE_SECONDS)
    assert deletes(cluster)[1:] == ["x-rollout-0", "x-rollout-1"]


def test_a_suspension_that_is_taken_back_puts_all_back() -> None:
    cluster = running(rollout(2))
    cluster.edit(suspend=True)
    looks(cluster)
    cluster.edit(suspend=False)
    cluster.settle()
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1"]
    assert deletes(cluster) == []
    assert cluster.phase == "Running"


def test_preemption_takes_all_out_first_and_ends_them_then() -> None:
    cluster = ClusterModel(job(rollout(2), preemptible=True))
    cluster.place(rollout="a b")
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert listed(cluster) == ["x-rollout-0", "x-rollout-1"]
    cluster.place()
    looks(cluster)
    assert (listed(cluster), deletes(cluster), cluster.phase) == ([], [], "Pending")
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-0", "x-rollout-1"]
    assert cluster.status["reschedules"] == 1


def test_one_that_is_moved_leaves_first() -> None:
    cluster = ClusterModel(job(rollout(2), preemptible=True))
    cluster.place(rollout="a b")
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.place(rollout="a c")
    looks(cluster)
    assert (listed(cluster), deletes(cluster)) == (["x-rollout-0"], [])
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-1"]
    cluster.end("x-rollout-1")
    cluster.settle()
    assert cluster.pods["x-rollout-1"]["metadata"]["annotations"]["diengine/node"] == "c"


def test_a_task_that_is_restarted_as_a_whole_leaves_first() -> None:
    rules = [{"tasks": ["rollout"], "action": "RestartTask"}]
    cluster = running(rollout(), failurePolicy={"rules": rules})
    cluster.fail("x-rollout-0")
    looks(cluster)
    assert (listed(cluster), deletes(cluster)) == ([], ["x-rollout-0"])
    cluster.settle()
    assert deletes(cluster) == ["x-rollout-0", "x-rollout-1", "x-rollout-2"]


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_the_end_of_a_job_waits_for_nobody_and_drains_within_the_template_s_time(end: str) -> None:
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
def test_a_time_of_the_template_that_somebody_edits_never_kills(written: str | None) -> None:
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
    cluster = running(rollout())
    cluster.scale("rollout", 1)
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


def test_the_leader_alone_is_asked_where_the_service_lists_leaders() -> None:
    cluster = running(groups("Leaders"))
    asked = {
        name
        for name, pod in cluster.pods.items()
        if "lifecycle" in pod["spec"]["containers"][0]
        and pod["spec"]["terminationGracePeriodSeconds"] == 50
    }
    assert asked == {FIRST[0], SECOND[0]}


def test_the_others_of_a_replica_go_when_its_leader_has_gone() -> None:
    cluster = running(groups("Leaders"))
    cluster.scale("rollout", 1)
    cluster.settle()
    assert (listed(cluster), deletes(cluster)) == ([FIRST[0]], [SECOND[0]])
    cluster.wait(20)
    assert deletes(cluster) == [SECOND[0]]
    cluster.end(SECOND[0])
    cluster.settle()
    assert deletes(cluster) == SECOND


def test_so_they_do_when_somebody_deletes_the_leader() -> None:
    cluster = running(groups("Leaders"))
    cluster.delete_pod(SECOND[0])
    cluster.settle()
    assert deletes(cluster) == []
    cluster.end(SECOND[0])
    cluster.settle()
    assert deletes(cluster) == [SECOND[1]]
    cluster.end(SECOND[1])
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert (listed(cluster), cluster.phase) == ([FIRST[0], SECOND[0]], "Running")


def test_a_leader_that_failed_is_not_waited_for() -> None:
    cluster = running(groups("Leaders"))
    cluster.fail(SECOND[0])
    cluster.settle()
    assert sorted(deletes(cluster)) == SECOND


def test_all_pods_of_a_replica_leave_together_where_all_are_listed() -> None:
    cluster = running(groups("All"))
    cluster.scale("rollout", 1)
    looks(cluster)
    assert (listed(cluster), deletes(cluster)) == (FIRST, [])
    cluster.wait(LEAVE_SECONDS)
    assert deletes(cluster) == SECOND


def test_leaders_of_replicas_of_one_pod_go_on_their_own() -> None:
    service = {"ports": PORTS, "select": "Leaders"}
    cluster = running(rollout(3, service=service))
    cluster.edit(suspend=True)
    looks(cluster)
    cluster.wait(LEAVE_SECONDS)
    assert len(deletes(cluster)) == 3
