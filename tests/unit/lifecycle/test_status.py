"""The status as it is written: conditions, times, and the patch that carries them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from di_operator.lifecycle.observed.specs import Reading, SpecCache, examine
from di_operator.lifecycle.observed.status import Status, with_owned
from di_operator.lifecycle.vocabulary.timestamps import parse_time
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task


@pytest.mark.proves("events.md#of-its-life/jobpending")
def test_the_first_status_has_passed_pending_and_is_starting() -> None:
    cluster = ClusterModel(job())
    cluster.reconcile()
    now = "2026-01-01T12:00:00Z"
    times = {"lastUpdateTime": now, "lastTransitionTime": now, "observedGeneration": 1}
    texts = [("Pending", "False", "job accepted"), ("Starting", "True", "created 4 pods")]
    assert cluster.status == {
        "observedGeneration": 1,
        "phase": "Starting",
        "conditions": [
            {"type": kind, "status": status, "reason": f"Job{kind}", "message": text, **times}
            for kind, status, text in texts
        ],
        **dict.fromkeys(("readyReplicas", "restarts", "reschedules"), 0),
        "replicas": 4,
        "taskStatus": {"learner": {"Pending": 1}, "collector": {"Pending": 3}},
        "startTime": now,
    }


@pytest.mark.proves("dijob.md#status/observedgeneration")
def test_the_status_has_the_generation_that_it_was_written_for() -> None:
    cluster = running()
    assert cluster.status["observedGeneration"] == cluster.job["metadata"]["generation"]
    cluster.job["metadata"]["generation"] += 1
    cluster.pass_time(60).settle()
    assert cluster.status["observedGeneration"] == cluster.job["metadata"]["generation"]


@pytest.mark.proves("lifecycle.md#phases", "dijob.md#status/conditions")
def test_conditions_are_the_history_and_exactly_one_is_true() -> None:
    cluster = running().pass_time(5).fail("x-learner-0").settle()
    states = [(c["type"], c["status"]) for c in cluster.status["conditions"]]
    assert states == [
        ("Pending", "False"),
        ("Starting", "True"),
        ("Running", "False"),
        ("Restarting", "False"),
    ]
    assert cluster.condition("Running")["message"] == "4 pods ready"
    assert cluster.condition("Running")["lastTransitionTime"] == "2026-01-01T12:00:05Z"


def test_the_transition_time_stays_while_the_phase_stays() -> None:
    cluster = ClusterModel(job()).settle().run("x-learner-0").pass_time(30).settle()
    assert cluster.condition("Starting")["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert cluster.condition("Starting")["lastUpdateTime"] == "2026-01-01T12:00:30Z"


def test_a_condition_that_cannot_be_read_is_dropped() -> None:
    cluster = running()
    cluster.status["conditions"] += [{"type": "Ready"}, "junk", {"type": 3, "status": "True"}]
    cluster.fail("x-learner-0").reconcile()
    assert all(
        set(condition) >= {"type", "status", "reason", "message", "lastTransitionTime"}
        for condition in cluster.status["conditions"]
    )
    assert "Ready" not in {condition["type"] for condition in cluster.status["conditions"]}


@pytest.mark.proves("events.md#of-its-life/phasenotconfirmed")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_that_no_condition_confirms_is_not_believed(phase: str) -> None:
    cluster = running(backoffLimit=3).fail("x-collector-0").settle().run().settle()
    before = dict(cluster.status)
    pods = cluster.uids
    cluster.events.clear()
    cluster.patch_status({"phase": phase}).settle()
    assert (cluster.status, cluster.uids) == (before, pods)
    warnings = [event for event in cluster.events if event.type == "Warning"]
    assert [event.reason for event in warnings] == ["PhaseNotConfirmed"]
    assert f"status.phase was {phase}" in warnings[0].message


def test_a_finished_phase_written_with_its_condition_is_believed() -> None:
    cluster = running()
    before = cluster.status["conditions"]
    ended = {"type": "Succeeded", "status": "True"}
    cluster.patch_status({"phase": "Succeeded", "conditions": [*before, ended]})
    cluster.settle()
    assert (cluster.phase, set(cluster.ending)) == ("Succeeded", set(cluster.pods))


def test_a_long_message_is_cut() -> None:
    cluster = running()
    cluster._set("x-learner-0", {"phase": "Failed", "message": "m" * 5000})
    cluster.reconcile()
    assert len(cluster.condition("Rescheduling")["message"]) == 1024


def test_an_invalid_spec_is_reported_with_every_field() -> None:
    cluster = ClusterModel(job(task("learner", 0), task("collector", -1))).settle()
    message = cluster.condition("Failed")["message"]
    assert "spec.tasks[0].replicas" in message
    assert "spec.tasks[1].replicas" in message
    assert cluster.pods == {}


def test_a_new_status_lacks_what_is_gone_and_keeps_other_writers_fields() -> None:
    old = {
        "phase": "Running",
        "startTime": "2026-01-01T12:00:00Z",
        "taskStatus": {"learner": {"Running": 1}, "collector": {"Running": 2}},
        "profilings": {"loss": 1},
    }
    new = {
        "phase": "Running",
        "taskStatus": {"learner": {"Succeeded": 1}, "collector": {"Running": 2}},
    }
    assert with_owned(old, new) == {**new, "profilings": {"loss": 1}}


def test_the_status_that_is_present_is_no_change() -> None:
    cluster = running()
    assert with_owned(cluster.status, dict(cluster.status)) == cluster.status


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-01T12:00:00", "0001-01-01T00:00:00+14:00", 7]
)
def test_what_is_no_time_is_none(text: object) -> None:
    assert parse_time(text) is None


def test_the_year_one_is_written_as_the_api_server_takes_it() -> None:
    """The zero time of Go's clients, which a status restored by one may have."""
    cluster = running().patch_status({"startTime": "0001-01-01T00:00:00Z"}).succeed()
    cluster.settle()
    assert cluster.status["startTime"] == "0001-01-01T00:00:00Z"


def test_a_time_is_read_in_utc() -> None:
    moment = parse_time("2026-01-01T14:00:00+02:00")
    assert moment == datetime.fromisoformat("2026-01-01T12:00:00+00:00")


def test_counters_that_are_none_count_as_zero() -> None:
    status = Status.read({"restarts": "many", "reschedules": -3, "failures": {"uid": 1}})
    assert (status.restarts, status.reschedules, status.losses) == (0, 0, ())


def test_a_spec_is_read_once_a_generation() -> None:
    reads: list[int] = []

    def reader(body: Mapping[str, Any]) -> Reading:
        reads.append(body["metadata"]["generation"])
        return examine(body)

    cache = SpecCache(size=2, examine=reader)
    body = job()
    assert cache(body) is cache(body)
    body["metadata"]["generation"] = 2
    cache(body)
    for name in ("y", "z"):
        cache(job(name=name, uid=f"uid-{name}"))
    cache(body)
    assert reads == [1, 2, 1, 1, 2]
