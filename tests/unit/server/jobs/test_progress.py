"""How far a job has come, by what it reports; and reports that make no sense."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_server.access.grants import Grant
from di_server.jobs.profilings import Report, status_patch
from di_server.jobs.progress import LONGEST_REASON, advanced
from di_server.model.references import JobRef
from tests.unit.server.fakes import Harness, job

PATH = "/v2alpha1/rl.cartpole/profilings"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def after(held: dict[str, Any] | None, **profilings: Any) -> dict[str, Any]:
    return advanced(held, profilings, NOW + timedelta(minutes=1))


FIRST = advanced(None, {"envSteps": 10, "maxEnvSteps": 100}, NOW)


@pytest.mark.proves(
    "rest.md#progress/step-totalsteps",
    "allocation.md#what-a-job-reports/step-totalsteps-phase",
    "dijob.md#status/progress",
)
def test_the_first_report_begins_the_progress() -> None:
    assert FIRST == {
        "percent": "10%",
        "step": 10,
        "totalSteps": 100,
        "reportedAt": EARLY,
        "progressedAt": EARLY,
    }
    assert "progressedAt" not in after(None, envSteps=0)
    assert after(None, loss=1) == {"reportedAt": LATE}


@pytest.mark.parametrize(
    ("step", "progressed"),
    [(10, EARLY), (11, LATE), (10.5, LATE), (3, EARLY)],
    ids=["the same", "more", "a little more", "begun again"],
)
def test_only_a_step_that_grows_is_progress(step: float, progressed: str) -> None:
    found = after(FIRST, envSteps=step, maxEnvSteps=100)
    assert (found["step"], found["reportedAt"], found["progressedAt"]) == (step, LATE, progressed)


@pytest.mark.proves("lifecycle.md#idle-jobs", "dijob.md#status/progress")
def test_only_a_report_with_the_share_of_waiting_renews_its_time() -> None:
    def told(held: dict[str, Any], now: datetime, **profilings: Any) -> dict[str, Any]:
        found = status_patch(held, [Report(profilings, lambda _: None)], now).patch
        assert found is not None
        progress: dict[str, Any] = found["status"]["progress"]
        return progress

    held = job()
    first = told(held, NOW, learnerWaitFrac=0.5)
    assert first["waitingAt"] == EARLY
    later = NOW + timedelta(minutes=1)
    held["status"] = {"profilings": {"learnerWaitFrac": 0.5}, "progress": first}
    assert told(held, later, envSteps=3) == {
        "reportedAt": LATE,
        "progressedAt": LATE,
        "step": 3,
    }
    assert told(held, later, learnerWaitFrac=None) == {"reportedAt": LATE}
    assert told(held, later, learnerWaitFrac=0.5)["waitingAt"] == LATE
    idle = told(held, later, gpuIdleFrac=0.5)
    assert idle == {"reportedAt": LATE, "gpuIdleAt": LATE}


def test_a_job_that_begins_again_progresses_from_there() -> None:
    again = after(FIRST, envSteps=3)
    assert after(again, envSteps=4)["progressedAt"] == LATE


@pytest.mark.proves("rest.md#progress/envsteps-maxenvsteps")
def test_a_step_of_its_own_precedes_those_of_the_environment() -> None:
    found = after(FIRST, step=2, totalSteps=8, envSteps=10, maxEnvSteps=100)
    assert (found["step"], found["totalSteps"], found["percent"]) == (2, 8, "25%")


@pytest.mark.proves("rest.md#progress/step-totalsteps")
@pytest.mark.parametrize(
    ("step", "total", "percent"),
    [(29, 100, "29%"), (999, 1000, "99%"), (1001, 1000, "100%"), (1e300, 1e-300, "100%")],
)
def test_the_percentage_is_rounded_down_to_100_at_most(
    step: float, total: float, percent: str
) -> None:
    assert after(None, envSteps=step, maxEnvSteps=total)["percent"] == percent


@pytest.mark.parametrize("total", [0, None])
def test_without_an_end_there_is_no_percentage(total: int | None) -> None:
    assert "percent" not in after(FIRST, envSteps=11, maxEnvSteps=total)


@pytest.mark.proves("rest.md#progress/phase")
def test_a_phase_is_shown_with_the_time_of_its_change() -> None:
    evaluates = after(FIRST, envSteps=10, phase="evaluation")
    assert (evaluates["phase"], evaluates["phaseAt"]) == ("evaluation", LATE)
    still = advanced(evaluates, {"envSteps": 10, "phase": "evaluation"}, NOW + timedelta(hours=1))
    assert still["phaseAt"] == LATE
    for trains in ("training", "", None):
        found = advanced(evaluates, {"envSteps": 10, "phase": trains}, NOW)
        assert "phase" not in found
        assert found["phaseAt"] == EARLY
    assert "phaseAt" not in after(FIRST, envSteps=10, phase="training")


@given(st.dictionaries(st.sampled_from([*FIRST, "rejected", "phaseAt"]), st.integers() | st.text()))
def test_progress_of_any_shape_is_replaced(held: dict[str, Any]) -> None:
    found = after(held, envSteps=10)
    assert (found["step"], found["reportedAt"]) == (10, LATE)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"reportedAt": 1767225600.5}, "reportedAt: must be a time, such as 2026-01-02T03:04:05Z"),
        ({"envSteps": "7"}, "envSteps: must be a number"),
        ({"step": -1}, "step: must be at least 0"),
        ({"phase": 3}, "phase: must be a string of at most 63 characters"),
        ({"perfParams": {"gamma": 2}}, "perfParams.alphaC: is missing"),
    ],
)
def test_a_bad_report_is_refused_with_path_and_reason(
    harness: Harness, body: dict[str, Any], message: str
) -> None:
    harness.ask(PATH, {"envSteps": 5})
    status_code, refusal = harness.ask(PATH, {**body, "loss": 1})
    assert (status_code, message in refusal) == (422, True)
    status = harness.job()["status"]
    assert status["profilings"] == {"envSteps": 5}
    assert message in status["progress"]["rejected"]


def test_a_refusal_is_written_once_and_cleared_by_a_good_report(harness: Harness) -> None:
    for _ in range(3):
        assert harness.ask(PATH, {"reportedAt": 1})[0] == 422
    assert harness.kube.calls["patch", "dijobs"] == 1
    assert harness.ask(PATH, {"envSteps": 5})[0] == 200
    assert "rejected" not in harness.job()["status"]["progress"]


def test_an_old_wrong_value_refuses_no_report(harness: Harness) -> None:
    harness.job()["status"]["profilings"] = {"reportedAt": 1767225600.5}
    # Unknown keys may hold anything.
    assert harness.ask(PATH, {"curve": "x", "steps": []})[0] == 200
    assert harness.ask(PATH, {"envSteps": 5})[0] == 200
    assert harness.ask(PATH, {"envSteps": "x"})[0] == 422


def test_of_several_reports_the_last_sets_the_refusal() -> None:
    good, bad = {"envSteps": 5}, {"envSteps": "x"}
    for reports, rejected in (((good, bad), True), ((bad, good), False)):
        found = status_patch(job(), [Report(each, lambda _: None) for each in reports], NOW).patch
        assert found is not None
        assert found["status"]["profilings"] == good
        assert ("rejected" in found["status"]["progress"]) is rejected


def test_the_reason_of_a_refusal_is_bounded() -> None:
    many: dict[str, Any] = {"observations": [{} for _ in range(1000)]}
    found = status_patch(job(), [Report(many, lambda _: None)], NOW).patch
    assert found is not None
    assert len(found["status"]["progress"]["rejected"]) == LONGEST_REASON


def test_a_report_about_another_job_writes_nothing() -> None:
    stranger = Report({"envSteps": "x"}, Grant(JobRef("rl", "cartpole"), "uid-of-another").check)
    assert status_patch(job(), [stranger], NOW).patch is None
