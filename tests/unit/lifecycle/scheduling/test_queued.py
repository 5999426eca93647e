"""Jobs with a queue: what has pods when, and when their quota is given back."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_kube.resources import WORKLOADS
from di_operator.kueue.workload import read_all
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.policies.kueue_workloads import leftover_steps
from di_operator.lifecycle.vocabulary.actions import Patch
from di_operator.lifecycle.write_errors import WorkloadRefused, on_error
from tests.unit.lifecycle.cluster_model import Crash, job, task
from tests.unit.lifecycle.scheduling.kueue_model import (
    CORE,
    QueuedCluster,
    admitted,
    queued,
    submitted,
    tiered,
    up,
    work,
)


def test_a_job_has_no_pods_before_it_is_admitted() -> None:
    cluster = submitted()
    assert cluster.states() == {CORE: "queued"}
    assert not cluster.pods
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobQueued")
    cluster.say_of(
        CORE, "Pending", "couldn't assign flavors: insufficient quota", QuotaReserved=False
    )
    cluster.settle()
    told = cluster.condition("Queued")
    assert (told["status"], told["reason"]) == ("True", "Pending")
    assert told["message"] == "queue team: couldn't assign flavors: insufficient quota"


@pytest.mark.proves("teams.md#kueue/workload-grpo-core", "lifecycle.md#queues/job-core")
def test_a_workload_lists_pod_sets_and_has_a_finalizer() -> None:
    body = submitted(work(2), task("learner"), priority="high").workloads[CORE]
    assert [(each["name"], each["count"]) for each in body["spec"]["podSets"]] == [
        ("work", 2),
        ("learner", 1),
    ]
    assert (body["spec"]["queueName"], body["spec"]["priority"]) == ("team", 1000)
    assert body["metadata"]["finalizers"] == ["diengine.opendilab.org/holds-quota"]
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("DIJob", True)


def test_an_admitted_job_is_resumed_and_runs_where_its_flavors_are() -> None:
    cluster = admitted()
    assert (cluster.phase, len(cluster.pods)) == ("Running", 3)
    assert cluster.job["spec"]["suspend"] is False
    assert "diengine/suspended-by" not in cluster.job["metadata"]["annotations"]
    assert cluster.condition("Queued")["status"] == "False"
    spec = cluster.pods["x-work-0"]["spec"]
    assert spec["nodeSelector"] == {"pool": "gpu"}
    assert {"key": "gpu"} in spec["tolerations"]
    assert "kueue.x-k8s.io/queue-name" not in cluster.pods["x-work-0"]["metadata"]["labels"]
    conditions = cluster.workloads[CORE]["status"]["conditions"]
    assert any(each["type"] == "PodsReady" and each["status"] == "True" for each in conditions)


def test_a_job_that_waits_for_admission_checks_has_no_pods() -> None:
    cluster = submitted().reserve(CORE).settle()
    assert not cluster.pods
    assert cluster.condition("Queued")["status"] == "True"


def test_pods_wait_for_a_flavor_that_is_not_known_yet() -> None:
    cluster = submitted()
    flavors, cluster.flavors = cluster.flavors, {}
    cluster.admit(CORE).settle()
    assert not cluster.pods
    assert cluster.condition("Queued")["reason"] == "FlavorNotFound"
    cluster.flavors = flavors
    up(cluster)
    assert cluster.phase == "Running"


def test_an_evicted_job_gives_its_quota_back_once_its_pods_are_gone() -> None:
    cluster = admitted().evict_workload(CORE).settle()
    assert (cluster.states(), len(cluster.pods)) == ({CORE: "evicted"}, 3)
    assert (cluster.phase, cluster.job["spec"]["suspend"]) == ("Pending", True)
    assert cluster.condition("Queued")["reason"] == "Preempted"
    cluster.settle().end_deleted().settle()
    assert cluster.states() == {CORE: "queued"}
    assert not cluster.pods
    # Once they have ended nothing tells of pods that are to end.
    assert cluster.condition("Pending")["message"] == "waiting to be admitted by queue team"
    said = {
        each["type"]: each["status"] for each in cluster.workloads[CORE]["status"]["conditions"]
    }
    assert (said["QuotaReserved"], said["Admitted"], said["Requeued"]) == ("False", "False", "True")
    cluster.admit(CORE)
    up(cluster)
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 0)


@pytest.mark.parametrize(
    ("reason", "requeued"),
    [
        ("Preempted", "True"),
        ("NodeFailures", "True"),
        ("PodsReadyTimeout", "False"),
        ("Deactivated", "False"),
    ],
)
def test_an_eviction_reason_decides_whether_the_job_is_requeued(reason: str, requeued: str) -> None:
    cluster = admitted().evict_workload(CORE, reason).settle().end_deleted().settle()
    said = {each["type"]: each for each in cluster.workloads[CORE]["status"]["conditions"]}
    assert (said["Requeued"]["status"], said["Requeued"]["reason"]) == (requeued, reason)


def test_a_deleted_workload_holds_quota_until_the_pods_are_gone() -> None:
    cluster = admitted().delete_by_hand(CORE).settle()
    assert cluster.states() == {CORE: "admitted"}  # held by our finalizer
    cluster.settle().end_deleted().settle()
    assert cluster.states() == {CORE: "queued"}
    assert "deletionTimestamp" not in cluster.workloads[CORE]["metadata"]


def test_suspending_an_admitted_job_releases_its_quota() -> None:
    cluster = admitted().edit(suspend=True).settle()
    assert cluster.states() == {CORE: "admitted"}
    cluster.settle().end_deleted().settle()
    assert not cluster.states()
    assert cluster.condition("Pending")["reason"] == "JobSuspended"
    assert cluster.condition("Queued")["status"] == "False"
    cluster.edit(suspend=False).settle()
    assert cluster.states() == {CORE: "queued"}
    assert not cluster.pods
    assert cluster.job["spec"]["suspend"] is True


@pytest.mark.proves("events.md#of-its-life/jobsuspended")
def test_a_job_created_suspended_is_not_queued() -> None:
    body = queued(job(work()))
    del body["metadata"]["annotations"]
    cluster = QueuedCluster(body).settle()
    assert not cluster.states()
    assert cluster.condition("Pending")["reason"] == "JobSuspended"


def test_without_the_webhook_nothing_starts_either() -> None:
    body = queued(job(work()))
    del body["metadata"]["annotations"], body["spec"]["suspend"]
    cluster = QueuedCluster(body).settle()
    assert cluster.states() == {CORE: "queued"}
    assert cluster.job["spec"]["suspend"] is True


def test_a_queued_job_waits_while_kueue_is_not_installed() -> None:
    cluster = QueuedCluster(queued(job(work())))
    cluster.served = False
    cluster.settle()
    told = cluster.condition("Queued")
    assert told["reason"] == "QueueUnavailable"
    assert "not installed" in told["message"]
    cluster.served = True
    cluster.settle()
    assert cluster.states() == {CORE: "queued"}


def test_a_running_job_goes_on_without_kueue() -> None:
    cluster = admitted(tiered())
    cluster.served = False
    cluster.settle()
    assert (cluster.phase, len(cluster.pods)) == ("Running", 2)


def test_a_task_is_admitted_in_part() -> None:
    cluster = submitted(work(6, minReplicas=2), task("learner", 2, minReplicas=1))
    pod_sets = cluster.workloads[CORE]["spec"]["podSets"]
    assert [each.get("minCount") for each in pod_sets] == [2, None]
    cluster.admit(CORE, work=4)
    up(cluster)
    assert (cluster.phase, len(cluster.pods)) == ("Running", 6)
    assert cluster.status["admitted"] == {"work": 4, "learner": 2}
    assert cluster.env("x-work-0")["DI_NODES"].count("x-work") == 4


def test_a_job_that_asks_for_more_while_it_runs_keeps_what_was_admitted() -> None:
    cluster = admitted().scale("work", 5).settle()
    assert len(cluster.pods) == 3


def test_a_job_that_is_changed_while_it_waits_asks_for_what_it_is_then() -> None:
    cluster = submitted()
    uid = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.scale("work", 5).edit(priority="high").settle()
    body = cluster.workloads[CORE]
    assert (body["metadata"]["uid"], body["spec"]["podSets"][0]["count"]) == (uid, 5)
    assert body["spec"]["priority"] == 1000


def test_a_workload_with_quota_for_another_size_is_replaced() -> None:
    cluster = submitted().reserve(CORE)
    uid = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.scale("work", 5).settle()
    body = cluster.workloads[CORE]
    assert body["metadata"]["uid"] != uid
    assert body["spec"]["podSets"][0]["count"] == 5


def test_a_priority_class_overrides_the_jobs_priority() -> None:
    cluster = QueuedCluster(queued(job(work()), **{"kueue.x-k8s.io/priority-class": "urgent"}))
    cluster.settle()
    assert not cluster.states()
    assert cluster.condition("Queued")["reason"] == "PriorityClassNotFound"
    cluster.classes["urgent"] = 7
    cluster.settle()
    spec = cluster.workloads[CORE]["spec"]
    assert (spec["priority"], spec["priorityClassRef"]["name"]) == (7, "urgent")
    cluster.admit(CORE)
    up(cluster)
    cluster.classes["urgent"] = 9
    cluster.settle()
    assert cluster.workloads[CORE]["spec"]["priority"] == 9


def test_a_queued_workload_follows_the_jobs_queue_and_priority_class() -> None:
    cluster = submitted()
    cluster.classes["urgent"] = 7
    labels = cluster.job["metadata"]["labels"]
    labels |= {"kueue.x-k8s.io/queue-name": "other", "kueue.x-k8s.io/priority-class": "urgent"}
    cluster.settle()
    spec = cluster.workloads[CORE]["spec"]
    assert (spec["queueName"], spec["priority"]) == ("other", 7)
    assert spec["priorityClassRef"]["name"] == "urgent"


def test_more_tasks_than_kueue_supports_are_reported() -> None:
    cluster = submitted(*(task(f"t{number}") for number in range(19)))
    assert not cluster.states()
    assert cluster.condition("Queued")["reason"] == "TooManyPodSets"


@pytest.mark.proves("dijob.md#spec/managedby")
def test_a_job_of_another_controller_is_left_alone() -> None:
    cluster = submitted(managedBy="example.com/another")
    assert not cluster.writes


@pytest.mark.proves(
    "teams.md#kueue/workload-grpo-collector-x0-x1", "lifecycle.md#queues/job-task-x-n"
)
def test_further_replicas_come_one_by_one_once_the_core_is_there() -> None:
    cluster = submitted(tiered(8, 2))
    assert cluster.states() == {CORE: "queued"}
    cluster.admit(CORE)
    up(cluster)
    assert (len(cluster.pods), cluster.phase) == (2, "Running")
    waiting = [name for name, state in cluster.states().items() if state == "queued"]
    assert waiting == [f"x-work-x{number}" for number in range(4)]
    extra = cluster.workloads["x-work-x0"]["spec"]
    assert (extra["priority"], extra["podSets"][0]["count"]) == (-1, 1)
    assert extra["podSets"][0]["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    cluster.admit("x-work-x2")
    up(cluster)
    assert (len(cluster.pods), cluster.phase) == (3, "Running")
    assert list(cluster.states().values()).count("queued") == 4
    assert cluster.status["reschedules"] == 0


def test_the_last_replica_goes_for_a_workload_that_is_evicted() -> None:
    cluster = admitted(tiered(4, 2)).admit("x-work-x0").admit("x-work-x1")
    up(cluster)
    cluster.evict_workload("x-work-x0").settle()
    ending = cluster.ending
    assert (ending, cluster.states()["x-work-x0"]) == (["x-work-3"], "evicted")
    cluster.settle().end_deleted().settle()
    assert cluster.states() == {CORE: "admitted", "x-work-x0": "queued", "x-work-x1": "admitted"}
    assert (cluster.phase, len(cluster.pods)) == ("Running", 3)


def test_evicting_the_core_removes_all_pods() -> None:
    cluster = admitted(tiered(4, 2)).admit("x-work-x0")
    up(cluster)
    cluster.evict_workload(CORE).settle().end_deleted().settle()
    assert cluster.states() == {CORE: "queued"}
    assert not cluster.pods


def test_the_last_pod_of_a_deleted_job_releases_its_quota() -> None:
    cluster = admitted().delete_by_hand(CORE)
    (found,) = read_all(cluster.workloads.values())
    pods = [Pod.read(pod) for pod in cluster.pods.values()]
    assert not leftover_steps([found], pods)
    (step,) = leftover_steps([found], [])
    assert step == Patch(
        resource=WORKLOADS,
        namespace="rl",
        name=CORE,
        uid=found.uid,
        resource_version=found.resource_version,
        patch={"metadata": {"finalizers": None}},
    )


def test_a_workload_of_an_earlier_job_goes_before_another_is_made() -> None:
    cluster = admitted()
    for body in cluster.pods.values():
        body["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    cluster.workloads[CORE]["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    cluster.job["status"] = {}
    cluster.settle()
    assert cluster.states() == {CORE: "admitted"}  # as long as its pods are there
    cluster.settle().end_deleted().settle()
    assert cluster.states() == {CORE: "queued"}
    (owner,) = cluster.workloads[CORE]["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-x"


def test_a_deleted_workload_without_an_owner_goes_before_another_is_made() -> None:
    """That of an earlier job whose objects were to stay has the finalizer of the operator."""
    cluster = admitted()
    for body in (*cluster.pods.values(), *cluster.workloads.values()):
        body["metadata"].update(uid="earlier", ownerReferences=[])
    for name in [*cluster.pods]:
        del cluster.objects["Pod", name]
    cluster.job["status"] = {}
    cluster.delete_by_hand(CORE).settle()
    assert cluster.states() == {CORE: "queued"}


@pytest.mark.proves("events.md#of-its-life/workloadrefused")
def test_a_refused_workload_gives_an_event_and_a_retry() -> None:
    cluster = submitted()
    snapshot = cluster.snapshot()
    decision = on_error(snapshot, WorkloadRefused(message="no such field"), cluster.now)
    (event,) = decision.events
    assert (event.reason, event.type, event.message) == (
        "WorkloadRefused",
        "Warning",
        "no such field",
    )
    assert decision.status is None
    assert decision.requeue_after == 10


@pytest.mark.parametrize(("phase", "reason"), [("succeed", "Succeeded"), ("fail", "Failed")])
def test_a_workload_finishes_with_the_last_pod(phase: str, reason: str) -> None:
    cluster = admitted(work(2), task("learner"), backoffLimit=0)
    if phase == "succeed":
        cluster.succeed()
    else:
        cluster.fail("x-learner-0")
    cluster.settle().end_deleted().settle()
    assert cluster.states() == {CORE: "finished"}
    body = cluster.workloads[CORE]
    assert "finalizers" not in body["metadata"]
    said = next(each for each in body["status"]["conditions"] if each["type"] == "Finished")
    assert said["reason"] == reason
    assert said["message"] == cluster.condition(reason)["message"] != ""


def test_a_deleted_job_holds_its_quota_as_long_as_its_pods() -> None:
    cluster = admitted()
    cluster.job["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    cluster.delete_by_hand(CORE).settle()
    assert cluster.states() == {CORE: "admitted"}
    for name in tuple(cluster.pods):
        cluster.delete_pod(name, force=True)
    cluster.settle()
    assert not cluster.states()


_HANDS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "evict", "delete", "end", "run", "scale", "suspend", "resume"]),
        st.integers(0, 9),
    ),
    max_size=24,
)


@given(hands=_HANDS, crashes=st.lists(st.integers(1, 4), max_size=12))
def test_no_pod_exists_without_admission_in_any_history(
    hands: list[tuple[str, int]], crashes: list[int]
) -> None:
    """Whatever Kueue, users and the kubelet do, and wherever the operator dies; and in the end all
    is as it would have been."""
    cluster = QueuedCluster(queued(job(tiered(5, 2), task("learner"))))
    left = iter(crashes)
    for hand, number in hands:
        with suppress(Crash):
            cluster.reconcile(crash_after=next(left, None))
        _move(cluster, hand, number)
        cluster.check()
    cluster.edit(suspend=False)
    for _ in range(12):
        cluster.settle()
        cluster.end_deleted()
        for name, state in cluster.states().items():
            if state == "queued" and "deletionTimestamp" not in cluster.workloads[name]["metadata"]:
                cluster.admit(name)
        cluster.run()
    replicas = cluster.job["spec"]["tasks"][0]["replicas"]
    assert (cluster.phase, len(cluster.pods)) == ("Running", replicas + 1)
    assert len(cluster.states()) == 1 + replicas - 2


def _move(cluster: QueuedCluster, hand: str, number: int) -> None:
    states = [*cluster.states().items()]
    name, state = states[number % len(states)] if states else ("", "")
    match hand:
        case "admit" if state == "queued" and _is_there(cluster, name):
            cluster.admit(name)
        case "evict" if state == "admitted":
            cluster.evict_workload(name)
        case "delete" if name:
            cluster.delete_by_hand(name)
        case "end":
            cluster.end_deleted()
        case "run":
            cluster.run(
                *(n for n, p in cluster.pods.items() if "deletionTimestamp" not in p["metadata"])
            )
        case "scale":
            cluster.scale("work", 2 + number % 4)
        case "suspend":
            cluster.job["metadata"]["annotations"].pop("diengine/suspended-by", None)
            cluster.edit(suspend=True)
        case "resume":
            cluster.edit(suspend=False)
        case _:
            pass  # there is nothing of that kind to be moved


def _is_there(cluster: QueuedCluster, name: str) -> bool:
    return "deletionTimestamp" not in cluster.workloads[name]["metadata"]
