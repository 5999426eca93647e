"""Which of several possible causes is found, and what an explanation shows."""

from __future__ import annotations

from di_api.explain import Cause, explain
from tests.unit.api.explain.cluster import (
    FULL,
    POD,
    STORY,
    TAINTED,
    Object,
    condition,
    event,
    facts,
    job,
    node,
    pod,
    time,
)


def test_an_old_failure_is_not_the_cause_of_a_new_problem() -> None:
    """It ran out of memory once; now the image of its new pod is gone."""
    seen = facts(
        job(
            "Starting",
            status={
                "restarts": 1,
                "failures": [{"pod": POD, "time": time(1), "exitCode": 137, "reason": "OOMKilled"}],
            },
        ),
        pod(waiting=("ErrImagePull", "not found")),
    )
    assert explain(seen).cause is Cause.IMAGE


def test_an_old_wait_for_a_node_is_not_the_cause_of_a_restart() -> None:
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
    assert found.summary.startswith("cartpole runs, after it was restarted once: ")


def test_restarts_are_counted_apart_from_moves_and_scalings() -> None:
    story = f"restart 1 of 3; pod {POD} failed first: exit code 1"
    failures = [{"pod": POD, "time": time(40), "exitCode": 1, "reason": "Error"}]
    seen = facts(
        job(
            "Running",
            status={"restarts": 1, "reschedules": 4, "failures": failures},
            conditions=[condition("Restarting", value=False, message=story)],
        ),
        pod(ready=True, phase="Running", node="gpu-1"),
    )
    found = explain(seen).summary
    assert found.startswith(
        "cartpole runs, after it was restarted once and moved or scaled 4 times:"
    )


def test_a_pod_on_a_node_does_not_wait_for_one() -> None:
    seen = facts(
        job("Starting"),
        pod(node="gpu-1", waiting=("ContainerCreating", "")),
        events=[event("FailedScheduling", TAINTED, uid=f"uid-{POD}")],
    )
    assert explain(seen).cause is Cause.STARTING


def test_events_older_than_the_phase_are_not_its_cause() -> None:
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


def test_events_of_a_ready_pod_are_no_cause() -> None:
    seen = facts(
        job("Starting"),
        pod(ready=True, phase="Running"),
        pod("cartpole-collector-0"),
        events=[event("FailedScheduling", TAINTED, uid=f"uid-{POD}")],
    )
    assert explain(seen).cause is Cause.STARTING


def test_an_explanation_shows_the_first_failed_pod_and_its_log_tail() -> None:
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
        f"cartpole failed after it was restarted 3 times: the program of {POD} failed (exit code 1)"
    )
    shown = {each.label: each.text for each in found.evidence}
    assert shown["first"] == f"{POD}/di-container, exit code 1, on node gpu-1"
    assert shown["restarts"] == "3 (backoffLimit 3)"
    assert shown["node"] == "gpu-1 is ready"
    assert shown["last log"].splitlines() == [f"line {number}" for number in range(10, 30)]
    assert found.remedy == "di logs cartpole: correct what ended it"


def test_a_similar_job_name_is_suggested() -> None:
    assert explain(facts(None, jobs=["cartpole-2"])).remedy == "did you mean cartpole-2?"
    assert "di list -A" in explain(facts(None)).remedy


def test_a_job_that_runs_again_shows_its_requested_restart() -> None:
    asked = condition(
        "Restarting", value=False, reason="RestartRequested", message="a restart was asked for"
    )
    found = explain(facts(job("Running", conditions=[asked]), pod(ready=True, phase="Running")))
    assert found.cause is Cause.RUNNING
    assert {each.label: each.text for each in found.evidence}["restarted"] == (
        "a restart was asked for"
    )


def test_the_remedy_names_the_command_that_has_the_log() -> None:
    """Of the present run, of the run before, or of a pod that is gone."""
    failed = job("Running", status={"failures": [{"pod": POD, "time": time(46), "exitCode": 3}]})
    story = f"restart 1 of 3; pod {POD} failed first: exit code 3"
    failed["status"]["conditions"] = [condition("Restarting", value=True, message=story)]
    failed["status"]["phase"] = "Restarting"

    def remedy(*pods: Object) -> str:
        return explain(facts(failed, *pods)).remedy.partition(":")[0]

    ended = {"exitCode": 3, "reason": "Error"}
    ranked = pod(phase="Failed", ended=ended)
    ranked["metadata"]["annotations"] = {"diengine/rank": "2"}
    assert remedy(ranked) == "di logs cartpole --rank 2"
    assert remedy(pod(phase="Running", last=ended)) == "di logs cartpole --previous"
    ranked["status"]["containerStatuses"][0]["name"] = "shipper"
    assert remedy(ranked) == "di logs cartpole --rank 2 -c shipper"
    gone = "di logs cartpole --ended (where di-history is installed)"
    assert remedy() == gone
    # Its successor has no such run.
    assert remedy(pod(phase="Pending")) == gone
