"""Heartbeats of members: what is written, and how much of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_api.status.heartbeats import MAX_MEMBERS, read_heartbeats
from di_server.jobs.heartbeats import Beat, beaten
from di_server.jobs.progress import advanced
from tests.unit.server.fakes import Harness

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/v2alpha1/rl.cartpole/profilings"


def send(harness: Harness, heartbeat: Any, **more: Any) -> int:
    return harness.ask(PATH, {"heartbeat": heartbeat, **more})[0]


@pytest.mark.proves("rest.md#heartbeats")
def test_a_heartbeat_is_recorded_and_is_no_progress(harness: Harness) -> None:
    assert send(harness, {"pod": "cartpole-learner-0", "withinSeconds": 300}) == 200
    status = harness.job()["status"]
    assert status["progress"] == {
        "heartbeats": {"cartpole-learner-0": {"at": "2026-01-01T00:00:00Z", "withinSeconds": 300}}
    }
    assert not status.get("profilings")


def test_a_report_with_a_heartbeat_is_progress_too(harness: Harness) -> None:
    beat = {"pod": "cartpole-learner-0", "withinSeconds": 300}
    assert send(harness, beat, step=3) == 200
    status = harness.job()["status"]
    assert (status["profilings"], status["progress"]["step"]) == ({"step": 3}, 3)
    assert [*status["progress"]["heartbeats"]] == ["cartpole-learner-0"]
    assert harness.ask(PATH, {"step": 4})[0] == 200
    assert [*harness.job()["status"]["progress"]["heartbeats"]] == ["cartpole-learner-0"]


@pytest.mark.parametrize(
    "heartbeat",
    [
        None,
        "cartpole-learner-0",
        {"withinSeconds": 300},
        {"pod": "No Pod", "withinSeconds": 300},
        *({"pod": "a", "withinSeconds": bad} for bad in (9, 86_401, "300", 30.5, True, None)),
    ],
)
def test_an_invalid_heartbeat_is_refused_with_its_field(harness: Harness, heartbeat: Any) -> None:
    code, message = harness.ask(PATH, {"heartbeat": heartbeat, "step": 1})
    assert (code, "heartbeat." in str(message)) == (422, True)
    assert "progress" not in harness.job()["status"]


def after(count: int, *, seconds: float = 0.0) -> dict[str, Any]:
    """The progress after heartbeats of so many pods, each a second after the one before."""
    progress: dict[str, Any] = {}
    for index in range(count):
        at = NOW + timedelta(seconds=index + seconds)
        progress = beaten(progress, Beat(f"a-{index}", 300), at)
    return progress


def test_an_early_heartbeat_is_not_written() -> None:
    first = after(1)
    assert beaten(first, Beat("a-0", 300), NOW + timedelta(seconds=37)) == first
    later = beaten(first, Beat("a-0", 300), NOW + timedelta(seconds=38))
    assert later["heartbeats"]["a-0"]["at"] == "2026-01-01T00:00:38Z"
    other = beaten(first, Beat("a-0", 60), NOW + timedelta(seconds=1))
    assert other["heartbeats"]["a-0"]["withinSeconds"] == 60


def test_a_job_has_a_bounded_number_of_heartbeats() -> None:
    full = after(MAX_MEMBERS)
    assert len(full["heartbeats"]) == MAX_MEMBERS
    soon, late = (NOW + timedelta(minutes=minutes) for minutes in (30, 90))
    assert beaten(full, Beat("b", 300), soon) == full
    assert beaten(full, Beat("a-0", 300), soon) != full
    found = beaten(full, Beat("b", 300), late)["heartbeats"]
    assert (len(found), "a-0" in found, "b" in found) == (MAX_MEMBERS, False, True)


@pytest.mark.parametrize(
    "held",
    [None, [], {"heartbeats": 1}, {"heartbeats": {"a": 1, "b": {"at": "x", "withinSeconds": 60}}}],
)
def test_a_malformed_record_is_replaced(held: Any) -> None:
    assert [*read_heartbeats(beaten(held, Beat("c", 60), NOW))] == ["c"]
    assert advanced(beaten(held, Beat("c", 60), NOW), {"step": 1}, NOW)["heartbeats"]
