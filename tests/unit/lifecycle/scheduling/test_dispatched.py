"""Jobs that MultiKueue has run in another cluster: in the manager's, and in the worker's."""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_kube.resources import DIJOBS
from di_operator.lifecycle.vocabulary.actions import Delete
from tests.unit.lifecycle.cluster_model import Crash, job, task
from tests.unit.lifecycle.scheduling.kueue_model import QueuedCluster, queued

CORE = "x-core"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
OWN = {"ownerReferences", "finalizers", "uid", "resourceVersion", "creationTimestamp"}


def tiered(replicas: int = 5) -> dict[str, Any]:
    return task("work", replicas, minReplicas=2, elastic={})


def manager(*tasks: dict[str, Any], **spec: Any) -> QueuedCluster:
    cluster = QueuedCluster(queued(job(*tasks or (tiered(),), managedBy=MULTIKUEUE, **spec)))
    return cluster.settle()


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


def test_one_workload_requests_all_pods_of_a_dispatched_job() -> None:
    cluster = manager(tiered(), task("learner"))
    assert cluster.states() == {CORE: "queued"}
    assert counts(cluster) == {"work": 5, "learner": 1}
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobQueued")


def test_a_dispatched_job_has_no_pods_and_the_workers_status() -> None:
    cluster = manager().reserve(CORE).settle()
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


def test_the_workers_status_stays_once_a_cluster_is_chosen() -> None:
    cluster = manager().reserve(CORE)
    cluster.workloads[CORE]["status"]["clusterName"] = "east"
    cluster.patch_status({"phase": "Starting"}).settle()
    assert cluster.phase == "Starting"


def copied(cluster: QueuedCluster, *, after: float) -> QueuedCluster:
    """MultiKueue copies a status to a job with quota: that of one admitted so much later there."""
    cluster.reserve(CORE).settle()
    admitted = {"type": "Queued", "status": "False", "reason": "Admitted", "message": ""}
    since = format_time(cluster.now + timedelta(seconds=after))
    cluster.patch_status(
        {"phase": "Starting", "conditions": [{**admitted, "lastTransitionTime": since}]}
    )
    return cluster.settle()


@pytest.mark.parametrize(
    ("after", "shown"),
    [(-1, ("Pending", "True")), (0, ("Starting", "False")), (1, ("Starting", "False"))],
)
def test_a_status_stays_if_the_worker_admitted_the_job_since(
    after: float, shown: tuple[str, str]
) -> None:
    cluster = copied(manager(), after=after)
    assert (cluster.phase, cluster.condition("Queued")["status"]) == shown


@pytest.mark.proves("events.md#of-its-life/jobqueued")
def test_a_job_taken_back_from_a_worker_waits_again() -> None:
    cluster = manager().admit(CORE).patch_status({"phase": "Running"}).settle()
    cluster.evict_workload(CORE, "AdmissionCheck").settle()
    assert cluster.states() == {CORE: "queued"}
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobQueued")


@pytest.mark.parametrize("change", [{"tasks": [tiered(4)]}, {"backoffLimit": 7}])
def test_a_job_changed_during_dispatch_is_dispatched_again(change: dict[str, Any]) -> None:
    # The other cluster may have read the job before the change or after it.
    cluster = manager().admit(CORE)
    before = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.edit(**change).settle()
    assert cluster.states() == {CORE: "queued"}
    assert cluster.workloads[CORE]["metadata"]["uid"] != before
    assert counts(cluster) == {"work": 4 if "tasks" in change else 5}
    cluster.admit(CORE).patch_status({"phase": "Running"})
    writes = [*cluster.writes]
    cluster.edit(ttlSecondsAfterFinished=60).settle()
    assert cluster.writes == writes


def test_a_job_changed_while_queued_keeps_its_workload() -> None:
    cluster = manager()
    before = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.edit(backoffLimit=7).settle().admit(CORE).settle()
    assert cluster.workloads[CORE]["metadata"]["uid"] == before
    assert cluster.states() == {CORE: "admitted"}


def test_another_default_of_a_later_version_moves_no_job() -> None:
    cluster = manager().admit(CORE)
    before = cluster.workloads[CORE]["metadata"]["uid"]
    cluster.edit(preemptible=False, tasks=[{**tiered(), "replicas": 5, "standby": None}])
    cluster.settle()
    assert cluster.workloads[CORE]["metadata"]["uid"] == before


def test_a_job_dispatched_by_an_earlier_version_stays() -> None:
    cluster = manager().admit(CORE)
    del cluster.workloads[CORE]["metadata"]["annotations"]["diengine/sent"]
    cluster.edit(backoffLimit=7).settle()
    assert cluster.states() == {CORE: "admitted"}


def test_a_dispatched_job_that_its_user_suspends_leaves_the_queue() -> None:
    cluster = manager().admit(CORE).patch_status({"phase": "Running"}).settle()
    del cluster.job["metadata"]["annotations"]["diengine/suspended-by"]
    cluster.settle()
    assert not cluster.workloads
    assert (cluster.phase, cluster.condition("Pending")["reason"]) == ("Pending", "JobSuspended")
    cluster.edit(suspend=False).settle()
    assert cluster.states() == {CORE: "queued"}
    assert cluster.job["spec"]["suspend"] is True


def test_a_job_finished_on_a_worker_frees_quota_and_expires() -> None:
    cluster = manager(ttlSecondsAfterFinished=60).admit(CORE)
    ended = {"phase": "Succeeded", "completionTimestamp": format_time(cluster.now)}
    condition = {"type": "Succeeded", "status": "True", "reason": "JobSucceeded", "message": ""}
    cluster.patch_status({**ended, "conditions": [condition]}).settle()
    assert cluster.states() == {CORE: "finished"}
    assert not cluster.workloads[CORE]["metadata"].get("finalizers")
    assert not cluster.decide().actions
    cluster.pass_time(61)
    (deletion,) = cluster.decide().actions
    assert isinstance(deletion, Delete)
    assert deletion.resource == DIJOBS


def test_a_job_without_a_queue_is_not_dispatched() -> None:
    body = job(tiered(), managedBy=MULTIKUEUE)
    cluster = QueuedCluster(body).settle()
    assert cluster.phase is None
    assert not cluster.writes


# --- the worker's cluster ---


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_the_workload_that_came_with_a_job_is_taken_up(where: str) -> None:
    cluster = worker(where=where).settle()
    metadata = cluster.workloads[CORE]["metadata"]
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["uid-x"]
    assert metadata["finalizers"] == ["diengine.opendilab.org/holds-quota"]
    assert [*cluster.workloads] == [CORE]
    cluster.admit(CORE).settle().run().settle()
    assert (cluster.phase, len(cluster.pods)) == ("Running", 5)
    assert [*cluster.workloads] == [CORE]


def test_no_pod_is_made_before_its_quota_is_held() -> None:
    cluster = worker().admit(CORE)
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
    cluster.edit(priority="high").scale("work", 7).settle()
    cluster.admit(CORE).settle().run().settle()
    assert (cluster.workloads[CORE]["spec"], len(cluster.pods)) == (spec, 5)
    cluster.scale("work", 3).settle().end_deleted().settle()
    assert (len(cluster.pods), counts(cluster)) == (3, {"work": 5})


def test_a_job_suspended_on_the_worker_releases_its_quota() -> None:
    cluster = worker()
    cluster.job["metadata"]["annotations"] = {}
    cluster.settle()
    assert not cluster.workloads
    # As its own: di-operator may delete nothing else.
    assert cluster.writes.index("patch Workload x-core") < cluster.writes.index(
        "delete Workload x-core"
    )


def test_an_evicted_job_holds_its_quota_until_its_pods_are_gone() -> None:
    cluster = worker().settle().admit(CORE).settle().run().evict_workload(CORE).settle()
    assert cluster.states() == {CORE: "evicted"}
    cluster.end_deleted().settle()
    assert cluster.states() == {CORE: "queued"}
