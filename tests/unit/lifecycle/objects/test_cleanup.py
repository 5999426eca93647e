"""What is left after the end, and for how long."""

from __future__ import annotations

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, job, running


@pytest.mark.proves("dijob.md#spec/cleanpodpolicy")
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("Running", {"x-learner-0", "x-collector-0"}),
        ("All", set()),
        ("None", {"x-learner-0", "x-collector-0", "x-collector-1", "x-collector-2"}),
    ],
)
def test_pods_stay_or_go_by_policy(policy: str, left: set[str]) -> None:
    cluster = running(backoffLimit=0, cleanPodPolicy=policy).succeed("x-collector-0")
    cluster.fail("x-learner-0").settle()
    cluster.end_deleted()
    assert (cluster.phase, set(cluster.pods)) == ("Failed", left)
    assert ("Service", "di-x") not in cluster.objects


def test_a_pod_whose_containers_have_ended_keeps_its_logs() -> None:
    cluster = running(backoffLimit=0)
    ended = {"name": "di-container", "state": {"terminated": {"exitCode": 0}}}
    cluster._set("x-collector-0", {"phase": "Running", "containerStatuses": [ended]})
    cluster.fail("x-learner-0").settle()
    assert "x-collector-0" not in cluster.ending
    assert "x-collector-1" in cluster.ending


@pytest.mark.proves("lifecycle.md#order-of-writes/succeeded-or-failed-then-clean-up")
def test_the_final_phase_is_written_before_anything_is_deleted() -> None:
    cluster = running(cleanPodPolicy="All").succeed()
    decision = cluster.reconcile()
    assert (cluster.phase, decision.actions) == ("Succeeded", ())


@pytest.mark.proves("dijob.md#status/replicas-readyreplicas", "dijob.md#status/taskstatus")
def test_the_counts_stay_as_they_were_at_the_end() -> None:
    cluster = running(cleanPodPolicy="All").succeed().settle()
    assert cluster.status["taskStatus"] == {
        "learner": {"Succeeded": 1},
        "collector": {"Succeeded": 3},
    }
    assert cluster.status["readyReplicas"] == 0
    assert cluster.condition("Succeeded")["message"] == "4 pods succeeded"
    assert cluster.status["completionTimestamp"] == "2026-01-01T12:00:00Z"


@pytest.mark.proves("dijob.md#spec/ttlsecondsafterfinished")
def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    cluster = running(ttlSecondsAfterFinished=100).succeed().settle()
    assert cluster.decide().requeue_after == 100
    cluster.pass_time(99)
    assert not cluster.decide().actions
    cluster.pass_time(1).reconcile()
    assert cluster.deleted_job


def test_a_time_to_live_of_zero_deletes_at_once() -> None:
    cluster = running(ttlSecondsAfterFinished=0).succeed()
    cluster.reconcile()
    cluster.reconcile()
    assert cluster.deleted_job


@pytest.mark.parametrize("ttl", [True, -1, "1", None])
def test_a_finished_job_without_a_valid_time_to_live_stays(ttl: object) -> None:
    cluster = running().succeed().settle().pass_time(10)
    cluster.job["spec"]["ttlSecondsAfterFinished"] = ttl
    assert cluster.decide().actions == ()


def test_a_job_without_a_completion_time_or_a_readable_spec_stays() -> None:
    cluster = running(ttlSecondsAfterFinished=60).succeed().settle().pass_time(99)
    cluster.patch_status({"completionTimestamp": None})
    assert cluster.decide().actions == ()
    cluster = ClusterModel(job())
    cluster.job["spec"] = "x"
    cluster.settle()
    assert (cluster.phase, cluster.decide().actions) == ("Failed", ())


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    cluster = running()
    cluster.job["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    cluster.fail("x-learner-0")
    decision = cluster.decide()
    assert decision.actions == ()
    assert decision.status is None
