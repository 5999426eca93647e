"""Jobs that MultiKueue has run in another cluster: in the manager's, and in the worker's."""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from di_api.kube.resources import DIJOBS
from di_api.timestamps import format_time
from di_operator.lifecycle.actions import Delete
from tests.unit.lifecycle.cluster_model import Crash, job, task
from tests.unit.lifecycle.kueue_model import QueuedCluster, queued

CORE = "x-core"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
OWN = {"ownerReferences", "finalizers", "uid", "resourceVersion", "creationTimestamp"}


def tiered(replicas: int = 5) -> dict[str, Any]:
    return task("work", replicas, minReplicas=2, elastic={})


def manager(*tasks: dict[str, Any], **spec: Any) -> QueuedCluster:
    cluster = QueuedCluster(queued(job(*tasks or (tiered(),), managedBy=MULTIKUEUE, **spec)))
    cluster.settle()
    return cluster


def worker(*, where: str = "labels", **spec: Any) -> QueuedCluster:
    """A cluster that MultiKueue has sent a job to, and its Workload."""
    sent = manager(**spec)
    body = queued(job(tiered(), **spec))
    body["metadata"][where] = {**body["metadata"].get(where, {}), PREBUILT: CORE}
    cluster = QueuedCluster(body)
    cluster.put(sent_workload(sent))
    return cluster


def sent_workload(sent: QueuedCluster) -> dict[str, Any]:
    body = copy.deepcopy(sent.workloads[CORE])
    body["metadata"] = {k: v for k, v in body["metadata"].items() if k not in OWN}
    body["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "manager"
    body.pop("status", None)
    return body


def counts(cluster: QueuedCluster) -> dict[str, int]:
    return {each["name"]: each["count"] for each in cluster.workloads[CORE]["spec"]["podSets"]}


# --- the manager's cluster ---


def test_one_workload_asks_for_all_of_a_job_that_goes_elsewhere() -> None:
    cluster = manager(tiered(), task("learner"))
    assert cluster.states() == {CORE: "queued"}
    assert counts(cluster) == {"work": 5, "learner": 1}
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobQueued")


def test_it_stays_suspended_and_without_pods_and_its_status_is_the_workers() -> None:
    cluster = manager()
    cluster.reserve(CORE)
    cluster.settle()
    assert cluster.condition("Queued")["status"] == "True"
    cluster.say_of(CORE, Admitted=True)
    cluster.patch_status({"phase": "Running", "readyReplicas": 5, "conditions": []})
    cluster.say_of(CORE, PodsReady=True)
    before = [*cluster.writes]
    cluster.settle()
    assert cluster.writes == before
    assert not cluster.pods
    assert cluster.job["spec"]["suspend"] is True
    assert (cluster.phase, cluster.status["readyReplicas"]) == ("Running", 5)


def test_a_status_from_elsewhere_is_left_from_the_choice_of_a_cluster_on() -> None:
    cluster = manager()
    cluster.reserve(CORE)
    cluster.workloads[CORE]["status"]["clusterName"] = "east"
    cluster.patch_status({"phase": "Starting"})
    cluster.settle()
    assert cluster.phase == "Starting"


def copied(cluster: QueuedCluster, *, after: float) -> QueuedCluster:
    """MultiKueue copies a status to a job with quota: that of one admitted so much later there."""
    cluster.reserve(CORE)
    cluster.settle()
    admitted = {"type": "Queued", "status": "False", "reason": "Admitted", "message": ""}
    since = format_time(cluster.now + timedelta(seconds=after))
    cluster.patch_status(
        {"phase": "Starting", "conditions": [{**admitted, "lastTransitionTime": since}]}
    )
    cluster.settle()
    return cluster


@pytest.mark.parametrize("after", [0, 1])
def test_a_status_from_elsewhere_is_left_before_it_is_said_where_that_is(after: float) -> None:
    cluster = copied(manager(), after=after)
    assert (cluster.phase, cluster.condition("Queued")["status"]) == ("Starting", "False")


def test_a_status_from_where_it_was_before_is_not_left() -> None:
    cluster = copied(manager(), after=-1)
    assert (cluster.phase, cluster.condition("Queued")["status"]) == ("Pending", "True")


def test_what_is_taken_back_waits_again() -> None:
    cluster = manager()
    cluster.admit(CORE)
    cluster.patch_status({"phase": "Running"})
    cluster.settle()
    cluster.evict_workload(CORE, "AdmissionCheck")
    cluster.settle()
    assert cluster.states() == {CORE: "queued"}
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobQueued")


@pytest.mark.parametrize("change", [{"tasks": [tiered(4)]}, {"backoffLimit": 7}])
def test_one_that_is_changed_on_its_way_is_taken_back_and_sent_anew(change: dict[str, Any]) -> None:
    """What the other cluster was sent may have been read before or after: nobody knows."""
    cluster = manager()
    cluster.admit(CORE)
    before = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.edit(**change)
    cluster.settle()
    assert cluster.states() == {CORE: "queued"}
    assert cluster.workloads[CORE]["metadata"]["uid"] != before
    assert counts(cluster) == {"work": 4 if "tasks" in change else 5}
    cluster.admit(CORE)
    cluster.patch_status({"phase": "Running"})
    writes = [*cluster.writes]
    cluster.edit(ttlSecondsAfterFinished=60)
    cluster.settle()
    assert cluster.writes == writes


def test_one_that_is_changed_while_it_waits_keeps_its_place() -> None:
    cluster = manager()
    before = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.edit(backoffLimit=7)
    cluster.settle()
    cluster.admit(CORE)
    cluster.settle()
    assert cluster.workloads[CORE]["metadata"]["uid"] == before
    assert cluster.states() == {CORE: "admitted"}


def test_one_of_which_a_later_version_shows_another_default_stays_where_it_is() -> None:
    cluster = manager()
    cluster.admit(CORE)
    before = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.edit(preemptible=False, tasks=[{**tiered(), "replicas": 5, "standby": None}])
    cluster.settle()
    assert cluster.workloads[CORE]["metadata"]["uid"] == before


def test_one_that_an_earlier_version_has_sent_is_left_where_it_is() -> None:
    cluster = manager()
    cluster.admit(CORE)
    del cluster.workloads[CORE]["metadata"]["annotations"]["diengine/sent"]
    cluster.edit(backoffLimit=7)
    cluster.settle()
    assert cluster.states() == {CORE: "admitted"}


def test_one_that_its_user_suspends_leaves_the_queue() -> None:
    cluster = manager()
    cluster.admit(CORE)
    cluster.patch_status({"phase": "Running"})
    cluster.settle()
    del cluster.job["metadata"]["annotations"]["diengine/suspended-by"]
    cluster.settle()
    assert not cluster.workloads
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobSuspended")
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.states() == {CORE: "queued"}
    assert cluster.job["spec"]["suspend"] is True


def test_one_that_has_ended_elsewhere_frees_its_quota_and_goes_after_its_time() -> None:
    cluster = manager(ttlSecondsAfterFinished=60)
    cluster.admit(CORE)
    ended = {"phase": "Succeeded", "completionTimestamp": format_time(cluster.now)}
    condition = {"type": "Succeeded", "status": "True", "reason": "JobSucceeded", "message": ""}
    cluster.patch_status({**ended, "conditions": [condition]})
    cluster.settle()
    assert cluster.states() == {CORE: "finished"}
    assert not cluster.workloads[CORE]["metadata"].get("finalizers")
    assert not cluster.decide().actions
    cluster.pass_time(61)
    (deletion,) = cluster.decide().actions
    assert isinstance(deletion, Delete)
    assert deletion.resource == DIJOBS


def test_one_without_a_queue_is_left_alone() -> None:
    body = job(tiered(), managedBy=MULTIKUEUE)
    cluster = QueuedCluster(body)
    cluster.settle()
    assert cluster.phase is None
    assert not cluster.writes


# --- the worker's cluster ---


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_the_workload_that_came_with_a_job_is_taken_up(where: str) -> None:
    cluster = worker(where=where)
    cluster.settle()
    metadata = cluster.workloads[CORE]["metadata"]
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["uid-x"]
    assert metadata["finalizers"] == ["diengine.opendilab.org/holds-quota"]
    assert [*cluster.workloads] == [CORE]
    cluster.admit(CORE)
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert (cluster.phase, len(cluster.pods)) == ("Running", 5)
    assert [*cluster.workloads] == [CORE]


def test_no_pod_is_made_before_its_quota_is_held() -> None:
    cluster = worker()
    cluster.admit(CORE)
    for _ in range(6):
        # The operator is killed after each of its writes.
        with suppress(Crash):
            cluster.reconcile(crash_after=1)
        assert cluster.workloads[CORE]["metadata"].get("finalizers") or not cluster.pods
    cluster.settle()
    assert len(cluster.pods) == 5


def test_nothing_is_made_before_the_workload_has_come() -> None:
    cluster = worker()
    del cluster.objects["Workload", CORE]
    cluster.settle()
    assert not cluster.workloads
    assert "MultiKueue" in cluster.condition("Queued")["message"]


def test_its_spec_stays_that_of_the_manager_and_bounds_the_job() -> None:
    cluster = worker()
    spec = copy.deepcopy(cluster.workloads[CORE]["spec"])
    cluster.edit(priority="high")
    cluster.scale("work", 7)
    cluster.settle()
    cluster.admit(CORE)
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.workloads[CORE]["spec"] == spec
    assert len(cluster.pods) == 5
    cluster.scale("work", 3)
    cluster.settle()
    cluster.end_all()
    cluster.settle()
    assert (len(cluster.pods), counts(cluster)) == (3, {"work": 5})


def test_one_that_is_suspended_at_the_worker_gives_its_quota_back() -> None:
    cluster = worker()
    cluster.job["metadata"]["annotations"] = {}
    cluster.settle()
    assert not cluster.workloads
    # As its own: di-operator may delete nothing else.
    assert cluster.writes.index("patch Workload x-core") < cluster.writes.index(
        "delete Workload x-core"
    )


def test_what_the_worker_has_evicted_is_held_until_its_pods_are_gone() -> None:
    cluster = worker()
    cluster.settle()
    cluster.admit(CORE)
    cluster.settle()
    cluster.run()
    cluster.evict_workload(CORE)
    cluster.settle()
    assert cluster.states() == {CORE: "evicted"}
    cluster.end_all()
    cluster.settle()
    assert cluster.states() == {CORE: "queued"}
