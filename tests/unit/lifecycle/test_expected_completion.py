"""The estimate of when a job is complete, when it is renewed, and when there is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.expected_completion import ExpectedCompletion
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.expected_completion import (
    FAREWELL,
    RESIZED,
    STEADY,
    Mark,
    Run,
    expect,
    spread_at,
)
from di_operator.lifecycle.observed.reported import Reported
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

TASKS = (task("learner", 2), task("collector", 2))
TOTAL = 100


def training(*tasks: Any, seconds: float = 600, **spec: Any) -> ClusterModel:
    """A job that has reported twice, so many seconds apart, ten steps each."""
    cluster = running(*(tasks or TASKS), **spec).wait(60)
    report(cluster, 10)
    cluster.wait(seconds)
    report(cluster, 20)
    return cluster


def report(cluster: ClusterModel, step: float, total: float | None = TOTAL, **more: Any) -> None:
    told = {} if total is None else {"totalSteps": total}
    cluster.report(step=step, **told, **more).settle()


def left(cluster: ClusterModel) -> list[float] | None:
    """Seconds from now to the three moments, None if there are none."""
    told = ExpectedCompletion.read(cluster.status.get("expectedCompletion"))
    if told is None:
        assert "expectedCompletion" not in cluster.status
        return None
    times = (told.earliest, told.expected, told.latest)
    return [(each - cluster.now).total_seconds() for each in times]


def test_what_is_left_goes_on_at_the_pace_since_the_first_report() -> None:
    cluster = training()
    # 80 steps of a minute each.
    spread = spread_at(STEADY, 0.2)
    assert cluster.status["pace"] == {"since": "2026-01-01T12:01:00Z", "step": 10}
    assert left(cluster) == pytest.approx(
        [4800 * spread.earliest, 4800, 4800 * spread.latest + FAREWELL], abs=1
    )


def test_there_is_no_estimate_before_the_second_report() -> None:
    cluster = running(*TASKS).wait(60)
    report(cluster, 10)
    assert left(cluster) is None
    assert "pace" in cluster.status


@pytest.mark.parametrize(("step", "total"), [(20, None), (100, 100), (120, 100), (0, 100)], ids=str)
def test_reports_without_a_maximum_give_no_estimate(step: float, total: float | None) -> None:
    cluster = running(*TASKS)
    for _ in range(3):
        cluster.wait(600)
        report(cluster, step, total)
        assert left(cluster) is None


def test_an_estimate_costs_at_most_one_write_a_minute() -> None:
    cluster = training()
    before = cluster.writes.count("status")
    for step in range(21, 40):
        cluster.wait(60)
        report(cluster, step)
    assert cluster.writes.count("status") == before
    # Six times as fast: each report changes the pace a little more.
    for step in range(45, 70, 2):
        cluster.wait(20)
        report(cluster, step)
    assert 0 < cluster.writes.count("status") - before <= 13 / 3 + 1


def test_what_else_is_written_brings_it_up_to_date() -> None:
    cluster = training()
    told = left(cluster)
    assert told is not None
    cluster.wait(66)
    report(cluster, 21)
    stale = left(cluster)
    assert stale == [each - 66 for each in told]
    cluster.edit(suspend=True).settle()
    assert left(cluster) is None
    assert "pace" not in cluster.status


def test_a_restart_keeps_it_and_begins_a_new_measure() -> None:
    cluster = training(backoffLimit=3)
    told = cluster.status["expectedCompletion"]
    cluster.fail("x-learner-0").settle()
    assert cluster.status["expectedCompletion"] == told
    cluster.run(*cluster.pods).settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)
    assert cluster.status["expectedCompletion"] == told
    # It went back to a checkpoint.
    cluster.wait(60)
    report(cluster, 15)
    cluster.wait(10)
    assert cluster.status["pace"]["step"] == 15
    cluster.wait(90)
    report(cluster, 25)
    found = left(cluster)
    assert found is not None
    assert found[1] == pytest.approx(750, abs=2)


def test_after_a_restart_a_forecast_ends_when_its_time_has_come() -> None:
    cluster = training(seconds=60, backoffLimit=3)
    cluster.fail("x-learner-0").settle()
    cluster.run(*cluster.pods).settle()
    found = left(cluster)
    assert found is not None
    cluster.wait(found[1] + 1)
    assert left(cluster) is None


def test_a_job_that_is_silent_is_not_expected_to_end() -> None:
    cluster = training(seconds=60)
    assert left(cluster) is not None
    cluster.wait(599)
    assert left(cluster) is None
    assert "pace" in cluster.status


def test_a_program_in_another_phase_has_no_estimate() -> None:
    cluster = training().wait(60)
    report(cluster, 21, phase="evaluation")
    assert left(cluster) is None


def test_a_deadline_comes_first() -> None:
    cluster = training(activeDeadlineSeconds=3600)
    found = left(cluster)
    assert found is not None
    assert found[1] == found[2]
    assert cluster.status["expectedCompletion"]["latest"] == "2026-01-01T13:00:00Z"


def test_a_finished_job_has_no_estimate() -> None:
    cluster = training().succeed().settle()
    assert cluster.phase == "Succeeded"
    assert left(cluster) is None
    assert "pace" not in cluster.status


_STEPS = st.floats(allow_nan=False, allow_infinity=False)
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_TIMES = st.floats(-1e9, 1e9).map(lambda seconds: _NOW + timedelta(seconds=seconds))
_REPORTED = st.builds(
    Reported,
    reported_at=_TIMES,
    progressed_at=st.none(),
    phase=st.just(""),
    phase_at=st.none(),
    step=st.none() | _STEPS,
    total=st.none() | _STEPS,
    rejected=st.just(""),
)


@given(
    st.builds(
        Run,
        reported=_REPORTED,
        since=_TIMES,
        mark=st.none() | st.builds(Mark, since=_TIMES, step=_STEPS),
        before=st.none(),
        attained=st.floats(0, 1e12),
        replicas=st.integers(0, 4096),
        resized=st.booleans(),
        deadline=st.none() | _TIMES,
        hangs=st.just(value=False),
    )
)
def test_whatever_is_reported_makes_three_moments_in_order_or_none(found: Run) -> None:
    told = expect(found, _NOW)
    if told is not None:
        assert told.earliest <= told.expected <= told.latest
        assert told.latest > _NOW
        assert ExpectedCompletion.read(told.dump()) == ExpectedCompletion.read(told.dump())


def test_the_rate_grows_with_replicas_added_by_the_allocator() -> None:
    reported = Reported(
        waiting_at=None,
        gpu_idle_at=None,
        reported_at=_NOW,
        progressed_at=None,
        phase="",
        phase_at=None,
        step=10.0,
        total=100.0,
        rejected="",
    )
    # A replica-minute a step so far, and three replicas now.
    run = Run(reported=reported, since=_NOW, mark=None, attained=600.0, replicas=3)
    told = expect(run, _NOW)
    assert told is not None
    assert (told.expected - _NOW).total_seconds() == pytest.approx(90 * 60 / 3)


def placed(*, starting: float) -> ClusterModel:
    """A job of one replica on each of two nodes that took so long to run there."""
    cluster = ClusterModel(job(task("learner", 2), preemptible=True, backoffLimit=3))
    cluster.place(learner="a b").settle().wait(starting)
    cluster.run().settle()
    assert cluster.phase == "Running"
    return cluster


def test_the_first_pace_of_one_that_was_placed_leaves_out_its_start() -> None:
    cluster = placed(starting=90).wait(30)
    report(cluster, 10)
    found = left(cluster)
    assert found is not None
    # Ten steps in 30 seconds, ninety to go.
    assert found[1] == pytest.approx(270 * spread_at(STEADY, 0.1).expected, abs=1)


def test_the_first_pace_after_a_restart_counts_what_ran_there_before() -> None:
    cluster = placed(starting=0).wait(100).fail("x-learner-0").settle()
    cluster.run(*cluster.pods).settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 1)
    report(cluster, 50)
    cluster.wait(10)
    found = left(cluster)
    assert found is not None
    assert found[1] + 10 == pytest.approx(100 * spread_at(STEADY, 0.5).expected, abs=2)


def test_the_first_pace_after_a_lost_pod_counts_what_ran_there_before() -> None:
    cluster = placed(starting=0).wait(100)
    report(cluster, 50)
    cluster.evict("x-learner-0").settle()
    cluster.run(*cluster.pods).settle()
    assert (cluster.phase, cluster.status["restarts"]) == ("Running", 0)
    # It goes on where it was: half of the steps took 102 seconds, not two.
    cluster.wait(2)
    report(cluster, 50)
    cluster.wait(70)
    found = left(cluster)
    assert found is not None
    assert found[1] + 70 == pytest.approx(100 * spread_at(STEADY, 0.5).expected, abs=5)


@pytest.mark.parametrize("spreads", [RESIZED, STEADY])
def test_the_spreads_are_in_order(spreads: Any) -> None:
    assert [each.done for each in spreads] == sorted(each.done for each in spreads)
    for hundredth in range(101):
        spread = spread_at(spreads, hundredth / 100)
        assert 0 < spread.earliest <= spread.expected <= spread.latest


def test_a_hand_written_estimate_is_ignored() -> None:
    cluster = training()
    told = cluster.status["expectedCompletion"]
    cluster.job["status"]["expectedCompletion"] = {"earliest": 1, "expected": told["latest"]}
    cluster.job["status"]["pace"] = {"since": format_time(cluster.now), "step": "x"}
    cluster.wait(60)
    report(cluster, 21)
    assert cluster.status["pace"]["step"] in (20, 21)
    cluster.wait(60)
    report(cluster, 22)
    assert left(cluster) is not None
