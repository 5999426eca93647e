"""The main container decides about its replica, whatever the containers beside it do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.lifecycle.kubelet_model import Object

LEARNER, COLLECTOR = "x-learner-0", "x-collector-0"
RUNS: Object = {"running": {"startedAt": "2026-01-01T12:00:00Z"}}
SHIPPER = {"name": "log-shipper", "image": "shipper:1"}


def beside(name: str, **fields: Any) -> Object:
    """A task whose pods have a sidecar, first in their list."""
    made = task(name, **fields)
    made["template"]["spec"]["containers"].insert(0, SHIPPER)
    return made


def running(**spec: Any) -> ClusterModel:
    made = ClusterModel(job(beside("learner"), task("collector"), backoffLimit=1, **spec))
    return made.settle().run().settle()


def ended(cluster: ClusterModel, code: int, reason: str = "Error") -> Object:
    times = {
        "startedAt": format_time(cluster.now - timedelta(seconds=5)),
        "finishedAt": format_time(cluster.now),
    }
    return {"terminated": {"exitCode": code, "reason": reason, **times}}


def shows(cluster: ClusterModel, main: Object, sidecar: Object, phase: str = "Running") -> None:
    """The kubelet reports how both containers of the learner are, in the order of their names."""
    statuses = [{"name": "di-container", "state": main}, {"name": "log-shipper", "state": sidecar}]
    cluster._set(LEARNER, {"phase": phase, "containerStatuses": statuses})


@pytest.mark.proves("lifecycle.md#which-container-decides")
def test_the_exit_of_the_main_container_fails_its_replica() -> None:
    cluster = running()
    uid = cluster.uids[LEARNER]
    shows(cluster, ended(cluster, 3), RUNS)
    cluster.reconcile()
    assert (cluster.phase, cluster.counts) == ("Restarting", (1, 0))
    assert "pod x-learner-0 failed first: exit code 3" in cluster.condition("Restarting")["message"]
    assert cluster.status["readyReplicas"] == 1
    cluster.settle().end_deleted().settle().run().settle()
    assert (cluster.phase, cluster.uids[LEARNER] != uid) == ("Running", True)
    shows(cluster, ended(cluster, 3), RUNS)
    cluster.settle()
    assert (cluster.phase, LEARNER in cluster.ending) == ("Failed", True)


@pytest.mark.parametrize("policy", [None, {"tasks": ["learner"], "gracePeriodSeconds": 0}])
def test_the_success_of_the_main_container_is_that_of_its_replica(policy: Object | None) -> None:
    cluster = running(**({"successPolicy": policy} if policy else {}))
    shows(cluster, ended(cluster, 0, "Completed"), RUNS)
    cluster.settle()
    if policy is None:
        cluster.pass_time(10).settle()
        assert cluster.status["taskStatus"]["learner"] == {"Succeeded": 1}
        cluster.succeed(COLLECTOR).settle()
    # Its sidecar runs on, so cleanPodPolicy is about it.
    assert (cluster.phase, LEARNER in cluster.ending) == ("Succeeded", True)


@pytest.mark.parametrize("phase", ["Running", "Failed"])
@pytest.mark.parametrize(("code", "counts"), [(0, (0, 0)), (3, (1, 0))])
def test_a_sidecar_that_was_killed_before_changes_nothing(
    phase: str, code: int, counts: tuple[int, int]
) -> None:
    cluster = running()
    killed = ended(cluster, 137, "OOMKilled")
    cluster.pass_time(60)
    shows(cluster, ended(cluster, code), killed, phase)
    if phase == "Running":
        # All have ended: what the kubelet says of the whole pod is still to come.
        cluster.settle()
        assert cluster.counts == (0, 0)
        shows(cluster, ended(cluster, code), killed, "Failed")
    cluster.reconcile()
    assert cluster.counts == counts
    if code:
        assert "failed first: exit code 3" in cluster.condition("Restarting")["message"]
    else:
        cluster.pass_time(10).settle()
        assert cluster.status["taskStatus"]["learner"] == {"Succeeded": 1}


def test_the_pod_whose_main_container_failed_first_is_named() -> None:
    cluster = running()
    killed = ended(cluster, 137, "OOMKilled")
    cluster.pass_time(60).fail(COLLECTOR, code=7).pass_time(60)
    shows(cluster, ended(cluster, 3), killed, "Failed")
    cluster.reconcile()
    assert (
        f"pod {COLLECTOR} failed first: exit code 7" in cluster.condition("Restarting")["message"]
    )


def test_rules_ask_for_the_exit_code_of_the_main_container() -> None:
    rule = {"onExitCodes": {"operator": "In", "values": [3]}, "action": "FailJob"}
    cluster = running(failurePolicy={"rules": [rule]})
    killed = ended(cluster, 137, "OOMKilled")
    cluster.pass_time(60)
    shows(cluster, ended(cluster, 3), killed, "Failed")
    cluster.reconcile()
    assert cluster.condition("Failed")["reason"] == "PodFailurePolicy"


@pytest.mark.parametrize(
    ("also", "counts"),
    [
        ({"reason": "DeadlineExceeded"}, (1, 0)),
        ({"reason": "Evicted"}, (1, 0)),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, (0, 1)),
    ],
    ids=str,
)
def test_a_pod_that_is_ended_as_a_whole_has_not_succeeded(
    also: Object, counts: tuple[int, int]
) -> None:
    cluster = running()
    shows(cluster, ended(cluster, 0, "Completed"), ended(cluster, 137), "Failed")
    cluster.pods[LEARNER]["status"] |= also
    cluster.reconcile()
    assert cluster.counts == counts


@pytest.mark.proves(
    "lifecycle.md#pods-that-cannot-run/a-container-beside-the-main-one-has",
    "events.md#of-its-life/sidecarended",
)
@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [(137, "OOMKilled", "137 (OOMKilled)"), (1, "Error", "1"), (0, "Completed", "0 (Completed)")],
)
def test_an_ended_sidecar_is_reported_while_the_job_runs_on(
    code: int, reason: str, told: str
) -> None:
    cluster = running()
    shows(cluster, RUNS, ended(cluster, code, reason))
    cluster.settle()
    found = cluster.condition("Running")
    assert (cluster.phase, found["reason"]) == ("Running", "SidecarEnded")
    assert found["message"] == (
        f"1 of 2 pods not complete, {LEARNER} first: container log-shipper ended with exit "
        f"code {told}, the main container runs on"
    )
    cluster.pass_time(10).settle()
    assert cluster.status["readyReplicas"] == 1
    assert [event.reason for event in cluster.events].count(Reason.SIDECAR_ENDED) == 1
    cluster.run(LEARNER).settle()
    assert cluster.condition("Running")["reason"] == "JobRunning"
