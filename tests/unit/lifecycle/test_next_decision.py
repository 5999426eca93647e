"""Decisions after which nothing is left to do, so that the next one is left out.

The model of the cluster makes the next decision all the same, and fails if it finds something. So
every other test of the lifecycle checks this too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from di_api.names import ANNOTATION_TRACE
from di_operator.lifecycle.decide import decide
from tests.unit.lifecycle import cluster_model
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.test_properties import FAST, STEPS, History


@pytest.mark.proves("lifecycle.md#reconciles-of-a-job")
def test_a_plain_job_takes_four_decisions() -> None:
    cluster = ClusterModel(job())
    starting = cluster.reconcile()
    up = cluster.run().reconcile()
    ended = cluster.succeed().reconcile()
    cleaned = cluster.reconcile()
    assert [each.is_last for each in (starting, up, ended, cleaned)] == [True, True, False, True]
    assert (cluster.phase, ("Service", "di-x") in cluster.objects) == ("Succeeded", False)


def test_counts_that_are_written_while_the_phase_stays_take_one_decision() -> None:
    cluster = ClusterModel(job())
    cluster.reconcile()
    cluster.run("x-collector-0").pass_time(10)
    counted = cluster.reconcile()
    assert (counted.status or {})["readyReplicas"] == 1
    assert counted.is_last


def test_completed_indexes_that_are_written_while_the_phase_stays_take_one_decision() -> None:
    cluster = running().succeed("x-collector-0").pass_time(10)
    written = cluster.reconcile()
    assert (written.status or {})["completedIndexes"] == {"collector": "0"}
    assert written.is_last


@pytest.mark.parametrize(("spec", "delay"), [({}, None), ({"pendingTimeoutSeconds": 90}, 90.0)])
def test_the_delay_of_the_last_decision_is_that_of_the_next(
    spec: dict[str, Any], delay: float | None
) -> None:
    decision = ClusterModel(job(**spec)).reconcile()
    assert (decision.is_last, decision.requeue_after) == (True, delay)


def test_a_finished_job_is_decided_again_at_the_end_of_its_ttl() -> None:
    cluster = running(ttlSecondsAfterFinished=30).succeed()
    assert not cluster.reconcile().is_last
    assert [(each.is_last, each.requeue_after) for each in (cluster.reconcile(),)] == [(True, 30.0)]
    assert not cluster.pass_time(30).reconcile().is_last
    assert cluster.deleted_job


def test_a_pod_edited_meanwhile_is_repaired_by_the_next_decision() -> None:
    cluster = ClusterModel(job()).settle().run()
    cluster.objects["Pod", "x-learner-0"]["metadata"]["annotations"].pop("diengine/rank")
    assert not cluster.reconcile().is_last
    cluster.reconcile()
    assert cluster.pods["x-learner-0"]["metadata"]["annotations"]["diengine/rank"] == "0"


def test_a_job_that_becomes_running_without_its_service_is_decided_again() -> None:
    cluster = ClusterModel(job())
    cluster.reconcile()
    del cluster.objects["Service", "di-x"]
    assert not cluster.run().reconcile().is_last
    cluster.reconcile()
    assert (cluster.phase, ("Service", "di-x") in cluster.objects) == ("Running", True)


@pytest.mark.parametrize(
    "spec",
    [
        {"tasks": [task("learner", standby=1)]},
        {"tasks": [task("rollout", 2, podsPerReplica=2)]},
        {"tasks": [task("learner", 2, processGroup={"framework": "torch"})]},
        {"progressPolicy": {"timeoutSeconds": 60}},
    ],
    ids=["standby", "pod group", "process group", "progress policy"],
)
def test_a_job_with_topics_of_its_own_is_always_decided_again(spec: dict[str, Any]) -> None:
    body = job()
    body["spec"] |= spec
    cluster = ClusterModel(body)
    assert not cluster.reconcile().is_last
    assert not cluster.settle().run().reconcile().is_last


def test_a_scaled_job_is_decided_again_so_that_its_trace_ends() -> None:
    body = job()
    body["metadata"]["annotations"] = {ANNOTATION_TRACE: "00-1-2-01 2026-01-01T12:00:00Z"}
    cluster = ClusterModel(body)
    assert not cluster.reconcile().is_last
    assert not cluster.settle().run().reconcile().is_last


@pytest.mark.parametrize(
    ("nodes", "is_last"),
    [(None, True), (frozenset({"n1"}), True), (frozenset({"n2"}), False)],
    ids=["unknown nodes", "node exists", "node is absent"],
)
def test_a_job_bound_to_a_node_is_decided_again_if_the_node_is_absent(
    nodes: frozenset[str] | None, is_last: bool
) -> None:
    bound = task("learner")
    bound["template"]["spec"]["nodeName"] = "n1"
    cluster = ClusterModel(job(tasks=[bound]))
    cluster.nodes = nodes
    assert cluster.reconcile().is_last is is_last


@pytest.mark.parametrize("step", ["fail", "evict", "vanish", "suspend", "scale"])
def test_a_job_that_does_not_go_straight_on_is_decided_again(step: str) -> None:
    cluster = running()
    match step:
        case "fail":
            cluster.fail("x-collector-0")
        case "evict":
            cluster.evict("x-collector-0")
        case "vanish":
            cluster.delete_pod("x-collector-0", force=True)
        case "suspend":
            cluster.edit(suspend=True)
        case _:
            cluster.scale("collector", 5)
    decision = cluster.reconcile()
    assert decision.actions or decision.status
    assert not decision.is_last


@FAST
@given(STEPS)
def test_a_job_reconciled_only_when_something_changes_misses_nothing(
    steps: list[tuple[str, int]],
) -> None:
    """After each step the job is reconciled until a decision is the last, and no more."""
    history = History(backoff_limit=3)
    for step in steps:
        history.live_through([step])
        for _ in range(30):
            decision = history.cluster.reconcile()
            if decision.is_last or not (decision.actions or decision.status):
                break
        after = history.cluster.decide()
        assert (after.actions, after.status, after.events) == ((), None, ())


def test_the_model_refuses_a_decision_wrongly_marked_as_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        cluster_model, "decide", lambda *given: replace(decide(*given), is_last=True)
    )
    cluster = ClusterModel(job()).settle().run().settle()
    with pytest.raises(AssertionError):
        cluster.succeed().reconcile()
