"""Failed pods: counted once, named, replaced under their own name."""

from __future__ import annotations

import pytest

from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.failure import losses
from di_operator.lifecycle.vocabulary.actions import Create, Delete
from tests.unit.lifecycle.cluster_model import SETTINGS, ClusterModel, running, task


def failing(**spec: object) -> ClusterModel:
    return running(**spec).fail("x-learner-0", code=137, reason="OOMKilled")


def test_the_message_names_the_pod_that_failed_first_and_why() -> None:
    cluster = running().fail("x-collector-2", code=137, reason="OOMKilled").pass_time(1)
    cluster.fail("x-learner-0").reconcile()
    assert cluster.condition("Restarting")["message"] == (
        "2 pods failed, restart 1 of 3; pod x-collector-2 failed first: exit code 137 (OOMKilled)"
    )
    assert cluster.events[-1].type == "Warning"


@pytest.mark.proves("lifecycle.md#failure/spec-backofflimit", "dijob.md#spec/backofflimit")
def test_the_message_of_a_failed_job_names_the_used_restarts() -> None:
    cluster = failing(backoffLimit=1).settle().run().fail("x-learner-0").settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["message"] == (
        "1 pod failed, 1 restart of 1 used; pod x-learner-0 failed first: exit code 1"
    )


def test_a_pod_ended_for_its_own_deadline_is_reported_by_that() -> None:
    cluster = running().fail("x-learner-0", code=137)
    cluster.pods["x-learner-0"]["status"] |= {
        "reason": "DeadlineExceeded",
        "message": "Pod was active too long",
    }
    cluster.reconcile()
    assert cluster.condition("Restarting")["message"].endswith(
        "failed first: DeadlineExceeded: Pod was active too long; exit code 137"
    )
    assert cluster.status["failures"][0]["reason"] == "DeadlineExceeded"


@pytest.mark.proves("lifecycle.md#order-of-writes/restarts-1-and-the-uids-in-status")
def test_a_pod_without_any_reason_is_reported_as_such() -> None:
    cluster = running().say("x-learner-0", phase="Failed")
    cluster.reconcile()
    message = cluster.condition("Rescheduling")["message"]
    assert message == "1 pod lost, x-learner-0 first: no reason given"


def test_nothing_is_deleted_before_the_failure_is_in_the_status() -> None:
    cluster = failing()
    uid = cluster.uids["x-learner-0"]
    first = cluster.reconcile()
    assert first.actions == ()
    assert cluster.status["failures"] == [
        {
            "uid": uid,
            "pod": "x-learner-0",
            "time": "2026-01-01T12:00:00Z",
            "exitCode": 137,
            "reason": "OOMKilled",
        }
    ]
    second = cluster.decide()
    assert [action.uid for action in second.actions if isinstance(action, Delete)] == [uid]


@pytest.mark.proves("lifecycle.md#checkpoints/its-program-fails-is-out-of-memory-or-is")
def test_the_replacement_has_the_name_and_rank_of_the_failed_pod() -> None:
    cluster = running().fail("x-collector-1").settle()
    assert (cluster.phase, cluster.env("x-collector-1")["DI_RANK"]) == ("Starting", "2")
    assert cluster.writes.count("create Pod x-collector-1") == 2
    assert cluster.writes.count("create Pod x-learner-0") == 1


@pytest.mark.proves("lifecycle.md#counted-exactly-once", "dijob.md#status/restarts")
def test_a_counted_failure_is_not_counted_again_from_stale_pods() -> None:
    cluster = failing()
    cluster.reconcile()
    old_pods = list(cluster.snapshot().held.values())
    cluster.settle().run().settle()
    stale = cluster.snapshot([dict(pod.raw) for pod in old_pods])
    decision = decide(stale, cluster.now, SETTINGS)
    assert decision.status is None or decision.status["restarts"] == 1


def test_a_failure_is_counted_again_only_from_an_older_status() -> None:
    """The status patch carries the resourceVersion, so this decision is refused and made again."""
    cluster = failing()
    before = cluster.snapshot()
    cluster.reconcile()
    again = decide(before, cluster.now, SETTINGS)
    assert again.status is not None
    assert (again.status["restarts"], again.actions) == (1, ())
    assert cluster.decide().status is None


def test_the_memory_of_counted_pods_is_bounded() -> None:
    cluster = running(backoffLimit=1000)
    for _ in range(70):
        cluster.fail("x-learner-0").settle()
    uids = [loss["uid"] for loss in cluster.status["failures"]]
    assert cluster.status["restarts"] == 70
    assert len(uids) == len(set(uids)) == 64


def test_pods_that_go_on_are_not_touched_by_a_restart() -> None:
    cluster = failing()
    decisions = [cluster.reconcile() for _ in range(3)]
    touched = {
        action.name if isinstance(action, Delete) else action.body["metadata"]["name"]
        for decision in decisions
        for action in decision.actions
        if isinstance(action, Delete | Create)
    }
    assert touched == {"x-learner-0"}


@pytest.mark.proves("lifecycle.md#what-is-relied-on-and-where-it-ends")
def test_more_failures_than_the_status_keeps_cost_one_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losses, "MAX_LOSSES", 4)
    cluster = running(task("collector", 11), backoffLimit=1)
    earlier = set(cluster.uids.values())
    cluster.fail(*cluster.pods).settle().run().settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)
    assert len(cluster.status["failures"]) <= 4
    assert not earlier & set(cluster.uids.values())
    assert len(cluster.pods) == 11


def test_more_pods_than_the_status_remembers_are_evicted_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(losses, "MAX_LOSSES", 4)
    cluster = running(task("collector", 11))
    for name in cluster.pods:
        cluster.evict(name)
    cluster.settle().run().settle()
    assert (cluster.phase, cluster.counts, len(cluster.pods)) == ("Running", (0, 1), 11)
