"""What has to do with the whole job, and what an explanation shows."""

from __future__ import annotations

import pytest

from di_api.explain import Cause, Facts, explain
from tests.unit.api.explain.cluster import (
    FULL,
    POD,
    STORY,
    TAINTED,
    assert_explained,
    condition,
    event,
    facts,
    job,
    node,
    pod,
    time,
)

CASES: dict[str, tuple[Facts, Cause]] = {
    "deadline": (
        facts(job("Failed", "DeadlineExceeded", "active for longer than 60 seconds")),
        Cause.DEADLINE,
    ),
    "hung": (
        facts(
            job(
                "Running",
                conditions=[condition("Hung", value=True, message="step 12 for 60 seconds")],
            ),
            pod(phase="Running", ready=True, node="gpu-1"),
        ),
        Cause.HUNG,
    ),
    "hung, until it failed": (
        facts(job("Failed", "NoProgress", "step 12 for 60 seconds; all 3 restarts are used")),
        Cause.HUNG,
    ),
    "being deleted": (
        facts(job("Running", metadata={"deletionTimestamp": time(59)})),
        Cause.BEING_DELETED,
    ),
    "an operator that is away": (facts(job()), Cause.OPERATOR_SILENT),
    "made a moment ago": (
        facts(job(metadata={"creationTimestamp": "2026-03-01T11:59:55Z"})),
        Cause.STARTING,
    ),
    "a mistake of the operator": (
        facts(
            job(
                "Running",
                conditions=[condition("ReconcileFailed", value=True, message="KeyError: 'x'")],
            )
        ),
        Cause.OPERATOR_FAILED,
    ),
    "a restart that was asked for": (
        facts(
            job("Restarting", "RestartRequested", "a restart of the job was asked for, 3 pods"),
            pod(phase="Running", ready=True),
        ),
        Cause.RESTARTED,
    ),
    "succeeded": (facts(job("Succeeded")), Cause.SUCCEEDED),
    "running": (facts(job("Running"), pod(ready=True, phase="Running")), Cause.RUNNING),
}


@pytest.mark.parametrize(("seen", "cause"), CASES.values(), ids=CASES)
def test_the_cause_is_found(seen: Facts, cause: Cause) -> None:
    assert_explained(seen, cause)


def test_an_old_failure_does_not_explain_what_is_wrong_now() -> None:
    """It ran out of memory once; now the image of its new pod is gone."""
    seen = facts(
        job(
            "Starting",
            status={
                "restarts": 1,
                "failures": [
                    {"pod": POD, "time": time(1), "exitCode": 137, "reason": "OOMKilled"},
                ],
            },
        ),
        pod(waiting=("ErrImagePull", "not found")),
    )
    assert explain(seen).cause is Cause.IMAGE


def test_what_once_kept_pods_from_running_does_not_explain_a_restart() -> None:
    """They waited for a node, ran, failed and run again, some hours after an eviction."""
    story = f"restart 1 of 3; pod {POD} failed first: exit code 1"
    seen = facts(
        job(
            "Running",
            status={
                "restarts": 1,
                "failures": [
                    {"pod": POD, "time": time(1), "reason": "Evicted"},
                    {"pod": POD, "time": time(40), "exitCode": 1, "reason": "Error"},
                ],
            },
            conditions=[condition("Restarting", value=False, message=story)],
        ),
        pod(ready=True, phase="Running", node="gpu-1"),
        events=[event("FailedScheduling", FULL), event("Evicted", "The node was low on memory.")],
    )
    found = explain(seen)
    assert found.cause is Cause.PROGRAM_FAILED
    assert found.summary.startswith("cartpole runs, after it was restarted or moved once: ")


def test_a_pod_that_has_found_a_node_waits_for_none() -> None:
    seen = facts(
        job("Starting"),
        pod(node="gpu-1", waiting=("ContainerCreating", "")),
        events=[event("FailedScheduling", TAINTED, uid=f"uid-{POD}")],
    )
    assert explain(seen).cause is Cause.STARTING


def test_what_was_told_of_the_job_before_its_phase_does_not_explain_it() -> None:
    old = {
        "type": "Warning",
        "reason": "QuotaExceeded",
        "message": "exceeded quota: small",
        "involvedObject": {"kind": "DIJob", "name": "cartpole"},
        "lastTimestamp": time(49),
    }
    pods = [pod(node="gpu-1", waiting=("ContainerCreating", ""))]
    assert explain(facts(job("Starting"), *pods, events=[old])).cause is Cause.STARTING
    new = {**old, "lastTimestamp": time(51)}
    assert explain(facts(job("Starting"), *pods, events=[new])).cause is Cause.QUOTA


def test_what_is_said_of_a_pod_that_is_well_by_now_explains_nothing() -> None:
    seen = facts(
        job("Starting"),
        pod(ready=True, phase="Running"),
        pod("cartpole-collector-0"),
        events=[event("FailedScheduling", TAINTED, uid=f"uid-{POD}")],
    )
    assert explain(seen).cause is Cause.STARTING


def test_an_explanation_shows_the_first_failing_pod_its_end_and_its_last_lines() -> None:
    later = pod(
        "cartpole-collector-0",
        phase="Failed",
        node="gpu-2",
        ended={"exitCode": 143, "finishedAt": time(47)},
    )
    seen = facts(
        job("Failed", "JobFailed", f"{STORY} 1", status={"restarts": 3}),
        later,
        pod(phase="Failed", node="gpu-1", ended={"exitCode": 1, "reason": "Error"}),
        logs={POD: [f"line {number}" for number in range(30)], "cartpole-collector-0": ["no"]},
        nodes=[node("gpu-1"), node("gpu-2")],
    )
    found = explain(seen)
    assert found.summary == (
        f"cartpole failed after it was restarted 3 times: the program of {POD} failed"
    )
    shown = {each.label: each.text for each in found.evidence}
    assert shown["first"] == f"{POD}/di-container, exit code 1, on node gpu-1"
    assert shown["restarts"] == "3 (backoffLimit 3)"
    assert shown["node"] == "gpu-1 is ready"
    assert shown["last log"].splitlines() == [f"line {number}" for number in range(10, 30)]
    assert found.remedy == "di logs cartpole --previous: correct what ended it"


def test_a_name_that_is_nearly_right_is_told() -> None:
    assert explain(facts(None, jobs=["cartpole-2"])).remedy == "did you mean cartpole-2?"
    assert "di list -A" in explain(facts(None)).remedy


def test_who_runs_again_is_told_of_the_restart_that_was_asked_for() -> None:
    asked = condition(
        "Restarting", value=False, reason="RestartRequested", message="a restart was asked for"
    )
    found = explain(facts(job("Running", conditions=[asked]), pod(ready=True, phase="Running")))
    assert found.cause is Cause.RUNNING
    assert {each.label: each.text for each in found.evidence}["restarted"] == (
        "a restart was asked for"
    )
