"""A job that runs is not judged: whatever rules its spec was admitted by, it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.field_error import InvalidSpec
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.observed.status import Status
from di_operator.lifecycle.vocabulary.conditions import advance, well_formed
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.test_coordinated import running as running_coordinated
from tests.unit.lifecycle.test_properties import FAST, STEPS, History


def unknown_field(cluster: ClusterModel) -> None:
    """What a rollback leaves: a field that this version does not know."""
    cluster.edit(flavour="new")


def broken_rule(cluster: ClusterModel) -> None:
    """What an upgrade leaves: a value that this version does not admit."""
    tasks = cluster.job["spec"]["tasks"]
    cluster.edit(tasks=[{**tasks[0], "maxReplicas": 0}, *tasks[1:]])


def unreadable(cluster: ClusterModel) -> None:
    """A word that has no meaning to this version."""
    cluster.edit(cleanPodPolicy="Archive")


@pytest.mark.parametrize("change", [unknown_field, broken_rule, unreadable])
def test_a_job_that_runs_keeps_its_pods_and_its_phase(
    change: Callable[[ClusterModel], None],
) -> None:
    cluster = running()
    before, written = cluster.uids, len(cluster.writes)
    change(cluster)
    cluster.settle()
    assert (cluster.phase, cluster.uids) == ("Running", before)
    assert cluster.writes[written:] == ["status"]
    assert cluster.status["taskStatus"] == {"learner": {"Running": 1}, "collector": {"Running": 3}}
    assert cluster.status["readyReplicas"] == 4
    cluster.pass_time(60).settle()
    assert cluster.writes[written:] == ["status"]


@pytest.mark.proves("events.md#of-problems/specinvalid")
def test_an_invalid_spec_gives_one_condition_and_one_event() -> None:
    cluster = running()
    cluster.events.clear()
    unknown_field(cluster)
    cluster.settle().pass_time(60).settle()
    condition = cluster.condition("SpecInvalid")
    assert (condition["status"], condition["reason"]) == ("True", "RulesBroken")
    assert condition["observedGeneration"] == 2
    assert condition["message"].startswith("the job goes on by what could be read: ")
    assert 'spec.flavour: "new": unknown field' in condition["message"]
    assert [(event.type, event.reason) for event in cluster.events] == [("Warning", "SpecInvalid")]
    assert cluster.events[0].message == condition["message"]


@pytest.mark.proves("lifecycle.md#specs-of-other-rules/is-fine-again")
@pytest.mark.parametrize("change", [unknown_field, unreadable])
def test_the_condition_is_false_once_the_spec_is_fine_again(
    change: Callable[[ClusterModel], None],
) -> None:
    cluster = running()
    change(cluster)
    cluster.settle()
    cluster.job["spec"].pop("flavour", None)
    cluster.edit(cleanPodPolicy="All")
    cluster.events.clear()
    cluster.settle()
    condition = cluster.condition("SpecInvalid")
    assert (condition["status"], condition["reason"]) == ("False", "SpecValid")
    assert (cluster.phase, cluster.events) == ("Running", [])


def test_a_further_problem_gives_another_event() -> None:
    cluster = running()
    unknown_field(cluster)
    cluster.settle()
    unreadable(cluster)
    cluster.settle()
    assert [e.reason for e in cluster.events if e.type == "Warning"] == ["SpecInvalid"] * 2
    assert cluster.condition("SpecInvalid")["reason"] == "Unreadable"


def test_kubectl_shows_the_reason_of_the_phase_before_that_of_a_problem() -> None:
    cluster = running()
    unknown_field(cluster)
    cluster.settle().fail("x-learner-0").settle()
    true = [c["type"] for c in cluster.status["conditions"] if c["status"] == "True"]
    assert true == ["Starting", "SpecInvalid"]


@pytest.mark.proves("lifecycle.md#specs-of-other-rules/breaks-a-rule-or-has-unknown-fields")
def test_a_job_with_an_invalid_spec_is_restarted_scaled_and_ended() -> None:
    cluster = running()
    unknown_field(cluster)
    cluster.fail("x-learner-0").settle()
    cluster.run().scale("collector", 2).settle()
    cluster.end("x-collector-2").settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)
    assert sorted(cluster.pods) == ["x-collector-0", "x-collector-1", "x-learner-0"]
    cluster.succeed().settle()
    assert cluster.phase == "Succeeded"


@FAST
@given(STEPS, st.integers(0, 3))
def test_any_history_ends_well_with_rules_broken(
    steps: list[tuple[str, int]], backoff_limit: int
) -> None:
    history = History(backoff_limit=backoff_limit)
    history.reach_running()
    unknown_field(history.cluster)
    history.live_through(steps)
    history.let_everything_go_well()
    assert history.failures > backoff_limit or history.cluster.phase == "Succeeded"


@pytest.mark.proves("lifecycle.md#specs-of-other-rules/holds-a-type-or-a-word-that-cannot-be")
@FAST
@given(STEPS)
def test_whatever_happens_a_frozen_job_gets_no_pod_and_loses_none(
    steps: list[tuple[str, int]],
) -> None:
    history = History(backoff_limit=0)
    history.reach_running()
    unreadable(history.cluster)
    written = len(history.cluster.writes)
    history.live_through([step for step in steps if step[0] not in ("suspend", "resume")])
    ended = history.cluster.phase == "Succeeded"
    assert {write for write in history.cluster.writes[written:] if write != "status"} <= (
        {"delete Service di-x"} if ended else set()
    )
    assert history.cluster.phase in ("Running", "Succeeded")


def test_a_frozen_job_whose_pods_have_all_succeeded_has_succeeded() -> None:
    cluster = running()
    unreadable(cluster)
    cluster.succeed("x-learner-0", "x-collector-0").settle()
    assert cluster.phase == "Running"
    cluster.succeed().settle()
    assert (cluster.phase, cluster.status["readyReplicas"]) == ("Succeeded", 0)
    assert cluster.status["replicas"] == 4
    assert cluster.status["completionTimestamp"]


def test_a_frozen_job_that_lost_a_pod_has_not_succeeded() -> None:
    cluster = running()
    unreadable(cluster)
    cluster.delete_pod("x-collector-2", force=True).succeed().settle()
    assert cluster.phase == "Running"


def test_the_deadline_of_a_frozen_job_holds() -> None:
    cluster = running(activeDeadlineSeconds=60)
    unreadable(cluster)
    assert cluster.reconcile().requeue_after is not None
    cluster.pass_time(60).settle()
    assert cluster.condition("Failed")["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize("seconds", [0, -1, True, "1", 2**63])
def test_a_frozen_job_has_no_deadline_that_admission_refuses(seconds: object) -> None:
    cluster = running()
    unreadable(cluster)
    cluster.edit(activeDeadlineSeconds=seconds).settle().pass_time(100).settle()
    assert (cluster.phase, cluster.decide().requeue_after) == ("Running", None)
    assert cluster.condition("SpecInvalid")["message"].count("spec.cleanPodPolicy") == 1


@pytest.mark.parametrize(("end", "phase"), [("succeed", "Succeeded"), ("fail", "Failed")])
def test_a_frozen_job_ends_with_its_coordinator(end: str, phase: str) -> None:
    cluster = running_coordinated()
    unreadable(cluster)
    cluster.settle()
    assert cluster.phase == "Running"
    getattr(cluster, end)("x-coordinator")
    cluster.settle()
    assert cluster.phase == phase


@pytest.mark.proves("lifecycle.md#specs-of-other-rules/is-fine-again")
def test_what_a_frozen_job_has_missed_is_made_good() -> None:
    cluster = running()
    unreadable(cluster)
    cluster.fail("x-learner-0").settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 0)
    cluster.edit(cleanPodPolicy="Running").settle().run().settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)


def test_a_frozen_job_remembers_the_pods_it_has_counted() -> None:
    cluster = running(task("work", 100), backoffLimit=9)
    cluster.fail(*cluster.pods)
    cluster.reconcile()
    assert len(cluster.status["failures"]) == 100
    unreadable(cluster)
    cluster.settle()
    assert len(cluster.status["failures"]) == 100


@pytest.mark.parametrize(
    ("change", "phase"), [(unknown_field, "Running"), (unreadable, "Starting")]
)
def test_a_wiped_status_is_written_again_and_keeps_the_pods(
    change: Callable[[ClusterModel], None], phase: str
) -> None:
    cluster = running()
    change(cluster)
    cluster.job["status"] = {}
    before = cluster.uids
    cluster.settle()
    assert (cluster.phase, cluster.uids) == (phase, before)
    assert cluster.condition("SpecInvalid")["status"] == "True"


@pytest.mark.proves("events.md#of-its-life/invalidspec")
@pytest.mark.parametrize("suspend", [False, True])
def test_a_job_that_was_never_started_is_judged(suspend: bool) -> None:
    cluster = ClusterModel(job(suspend=suspend))
    if suspend:
        cluster.settle()
        assert cluster.phase == "Pending"
    unknown_field(cluster)
    cluster.settle()
    assert cluster.phase == "Failed"
    assert (cluster.condition("Failed")["reason"], cluster.pods) == ("InvalidSpec", {})
    assert "SpecInvalid" not in {c["type"] for c in cluster.status["conditions"]}


def test_a_job_that_was_suspended_while_it_ran_is_not_judged() -> None:
    cluster = running().edit(suspend=True).settle().end()
    unknown_field(cluster)
    cluster.settle()
    assert cluster.phase == "Pending"
    cluster.edit(suspend=False).settle()
    assert cluster.phase == "Starting"


def test_a_job_that_waits_with_a_part_of_its_pods_is_not_judged() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))
    cluster.settle()
    assert (cluster.phase, sorted(cluster.pods)) == ("Pending", ["x-learner-0"])
    unknown_field(cluster)
    cluster.settle()
    assert (cluster.phase, sorted(cluster.pods)) == ("Pending", ["x-learner-0"])


STARTED = {
    "it is Running": {"phase": "Running"},
    "it was Starting once": {
        "phase": "Pending",
        "conditions": [{"type": "Starting", "status": "False", "reason": "r", "message": "m"}],
    },
    "a restart is counted": {"phase": "Pending", "restarts": 1},
    "a pod of it has run": {
        "phase": "Pending",
        "taskStatus": {"learner": {"Running": 1}, "collector": {"Pending": 3}},
    },
}


@pytest.mark.parametrize("status", STARTED.values(), ids=STARTED)
def test_a_job_has_been_started_if(status: dict[str, Any]) -> None:
    assert Status.read(status).has_started
    for counts in ({"Pending": 1}, {"Running": 0}):
        waiting = {"phase": "Pending", "taskStatus": {"learner": counts}, "startTime": "t"}
        assert not Status.read(waiting).has_started


def test_a_spec_is_returned_only_if_the_job_uses_it() -> None:
    """The cache knows the reading before the start; what it answers follows the status."""
    read, body = SpecCache(size=2), job(flavour="new")
    with pytest.raises(InvalidSpec, match="unknown field"):
        read(body)
    body["status"] = {"phase": "Running"}
    assert read(body).replicas == 4
    frozen = job(uid="uid-y", cleanPodPolicy="Archive")
    with pytest.raises(InvalidSpec, match="cleanPodPolicy"):
        read(frozen | {"status": {"phase": "Running"}})


def test_a_condition_of_another_version_stays() -> None:
    cluster = running()
    other = {"type": "Archived", "status": "True", "reason": "Archive", "message": "kept"}
    kept = advance(
        well_formed([*cluster.status["conditions"], other]),
        phase=cluster.snapshot().status.phase,  # type: ignore[arg-type]  # it is Running
        reason="r",
        message="m",
        asides=(),
        generation=1,
        now=cluster.now,
    )
    assert other in kept
