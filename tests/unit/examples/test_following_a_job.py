"""What the demonstration shows of a job: a line for each thing that changed, and none twice."""

from __future__ import annotations

from typing import Any

from examples.demo.curve import read_record
from examples.demo.follow import View


def job(
    phase: str = "",
    *,
    collectors: int = 2,
    ready: int = 0,
    returns: tuple[float, ...] = (),
    reason: str = "",
    message: str = "",
) -> dict[str, Any]:
    """A job of a learner and collectors, as the API server would show it."""
    status: dict[str, Any] = {}
    if phase:
        held = {"type": phase, "lastTransitionTime": "2026-01-01T00:00:00Z", "message": message}
        conditions = [{**held, "reason": reason or f"Job{phase}"}]
        status = {"phase": phase, "replicas": 1 + collectors, "readyReplicas": ready}
        status["conditions"] = conditions
    if returns:
        curve = [[float(at), 100 * at, value] for at, value in enumerate(returns)]
        status["profilings"] = {"curve": curve}
    tasks = [{"type": "learner"}, {"type": "collector", "replicas": collectors}]
    return {"spec": {"tasks": tasks}, "status": status}


def test_a_phase_is_shown_once_with_its_pods() -> None:
    view = View()
    assert list(view.changes(job("Starting"))) == ["Starting     0/3 pods ready"]
    assert list(view.changes(job("Starting"))) == []


def test_a_blocked_pod_is_shown_once() -> None:
    view = View()
    list(view.changes(job("Starting")))
    pull = job("Starting", reason="ImagePullBackOff", message="1 of 3 pods cannot run")
    assert list(view.changes(pull)) == ["ImagePullBackOff: 1 of 3 pods cannot run"]
    assert list(view.changes(pull)) == []
    assert list(view.changes(job("Starting"))) == []


def test_an_unchanged_phase_can_be_repeated() -> None:
    view = View()
    list(view.changes(job("Running", ready=3)))
    assert list(view.standing()) == ["still Running, 3/3 pods ready"]
    list(view.changes(coordinated("Running", coordinator=1)))
    assert list(view.standing()) == ["still Running"]


def test_scaling_is_shown_with_both_counts() -> None:
    view = View()
    list(view.changes(job("Running", ready=3)))
    lines = list(view.changes(job("Running", ready=3, collectors=4)))
    assert lines[0] == "collectors: 2 -> 4 (the job asked di-server)"
    back = list(view.changes(job("Running", ready=3, collectors=2)))
    assert back[0] == "collectors: 4 -> 2 (the job asked di-server)"


def test_the_return_is_shown_after_each_fifty() -> None:
    view = View()
    list(view.changes(job("Running")))
    assert list(view.changes(job("Running", returns=(49.0,)))) == []
    assert list(view.changes(job("Running", returns=(49.0, 61.0)))) == ["mean return 61 of 500"]
    assert list(view.changes(job("Running", returns=(49.0, 61.0, 30.0)))) == []
    assert list(view.changes(job("Running", returns=(61.0, 110.0)))) == []
    assert list(view.changes(job("Running", returns=(61.0, 111.0)))) == ["mean return 111 of 500"]


def test_the_history_has_each_phase_with_its_message_in_order() -> None:
    view = View()
    for seen in (
        job("Starting", message="3 pods created"),
        job("Starting", ready=1, message="3 pods created"),
        job("Running", ready=3, message="3 pods ready"),
        job("Rescheduling", collectors=4, message="replicas changed"),
        job("Running", ready=5, collectors=4, message="5 pods ready"),
        job("Succeeded", collectors=4, message="done"),
    ):
        list(view.changes(seen))
    told = [line.split(maxsplit=2)[1:] for line in view.history]
    assert told == [
        ["Starting", "3 pods created"],
        ["Running", "3 pods ready"],
        ["Rescheduling", "replicas changed"],
        ["Running", "5 pods ready"],
        ["Succeeded", "done"],
    ]


def coordinated(phase: str, **active: int) -> dict[str, Any]:
    """A job with a coordinator, as its own version of the API shows it."""
    counts = {
        role: {"active": active.get(role.lower(), 0), "succeeded": 0, "failed": 0}
        for role in ("Coordinator", "Aggregator", "Collector", "Learner")
    }
    return {
        "spec": {"coordinator": {}, "collector": {}},
        "status": {"phase": phase, "replicaStatus": counts},
    }


def test_a_coordinators_scaling_is_shown() -> None:
    view = View()
    assert list(view.changes(coordinated("Created", coordinator=1))) == ["Created"]
    lines = list(view.changes(coordinated("Running", coordinator=1, collector=2)))
    assert lines == ["collectors: 0 -> 2 (the job asked di-server)", "Running"]
    lines = list(view.changes(coordinated("Running", coordinator=1, collector=4)))
    assert lines == ["collectors: 2 -> 4 (the job asked di-server)"]
    assert list(view.changes(coordinated("Succeeded"))) == ["Succeeded"]


def test_a_record_is_read_from_a_log() -> None:
    log = """2026-01-01 INFO x is here
{"scaling": [0.0, 2]}
{"curve": [1.5, 300, 20.5]}
{not json}
[1, 2]
{"curve": [2.5, 600, 31.0]}
"""
    assert read_record(log) == {
        "curve": [[1.5, 300, 20.5], [2.5, 600, 31.0]],
        "scaling": [[0.0, 2]],
    }
