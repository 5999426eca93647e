"""What iterations take, and what of it is waiting."""

from __future__ import annotations

import pytest

from di_orchestrator.training_run.report import MAX_OBSERVATIONS, faults_of
from di_orchestrator.training_run.stopwatch import LAPS, Lap, Observations, Stopwatch, Window
from tests.unit.sdk.conftest import Clock
from tests.unit.sdk.trainings import make


@pytest.mark.proves("sdk.md#reference/waiting-abstractcontextmanager-none")
def test_time_between_iterations_is_waiting(clock: Clock) -> None:
    watch = Stopwatch(clock)
    assert watch.begin(32) is None
    clock.pass_(3)
    watch.end()
    clock.pass_(1)
    assert watch.begin(16, stale=4) == Lap(32, 4, 1)
    clock.pass_(2)
    watch.waited(0.5)
    watch.synchronized(0.25)
    watch.synchronized(0.25)
    assert watch.stop() is None
    watch.end()
    assert watch.stop() == Lap(16, 2, 0.5, 0.5, 4)
    assert watch.stop() is None


def test_unbalanced_calls_are_harmless(clock: Clock) -> None:
    watch = Stopwatch(clock)
    watch.end()
    watch.waited(9)
    watch.synchronized(9)
    watch.begin(1)
    clock.pass_(1)
    watch.end()
    clock.pass_(1)
    watch.end()
    assert watch.stop() == Lap(1, 2, 1)


def test_a_window_has_the_shares_of_the_last_laps() -> None:
    window = Window()
    assert (window.waiting, window.rate, window.stale, len(window)) == (None, None, 0, 0)
    for _ in range(LAPS):
        window.add(Lap(10, 100, 100))
    for _ in range(LAPS):
        window.add(Lap(30, 2, 0.5, stale=10))
    assert (window.waiting, window.rate, window.stale) == (0.25, 0.5, 0.25)
    window.clear()
    assert len(window) == 0


def test_observations_are_means_without_waiting() -> None:
    seen = Observations()
    seen.add(Lap(32, 3, 1), nodes=1, replicas=1, kind="")
    seen.add(Lap(32, 5, 1), nodes=1, replicas=1, kind="")
    seen.add(Lap(32, 4, 1, 0.5), nodes=2, replicas=4, kind="a100")
    assert seen.raw() == [
        {"nodes": 1, "replicas": 1, "samples": 32, "computing": 3.0, "iteration": 3.0},
        {
            **{"nodes": 2, "replicas": 4, "samples": 32, "computing": 2.5, "iteration": 3.0},
            "kind": "a100",
        },
    ]
    assert faults_of({"observations": seen.raw()}) == []
    assert Observations(seen.raw()).raw() == seen.raw()


@pytest.mark.parametrize(
    ("lap", "replicas"),
    [
        pytest.param(Lap(0, 1, 0), 1, id="nothing was trained on"),
        pytest.param(Lap(8, 1, 1), 1, id="it only waited"),
        pytest.param(Lap(8, 1, 0), 2, id="it is not known what was for the others"),
    ],
)
def test_a_lap_without_information_is_no_observation(lap: Lap, replicas: int) -> None:
    seen = Observations()
    seen.add(lap, nodes=1, replicas=replicas, kind="")
    assert seen.raw() == []


def test_the_newest_observations_are_kept() -> None:
    seen = Observations()
    for samples in range(1, MAX_OBSERVATIONS + 2):
        seen.add(Lap(samples, 1, 0), nodes=1, replicas=1, kind="")
    assert [each["samples"] for each in seen.raw()] == list(range(2, MAX_OBSERVATIONS + 2))


def test_times_too_short_to_measure_are_within_the_bounds() -> None:
    seen = Observations()
    seen.add(Lap(1, 1e-15, 0), nodes=1, replicas=1, kind="")
    seen.add(Lap(2, 1, 0, 2.0), nodes=1, replicas=1, kind="")
    assert faults_of({"observations": seen.raw()}) == []


@pytest.mark.proves("sdk.md#reference/worked-none")
@pytest.mark.usefixtures("term")
def test_after_its_work_an_iteration_waits_until_the_next_begins(clock: Clock) -> None:
    with make(clock) as run:
        for step in range(5):
            run.iteration(8)
            clock.pass_(1)
            run.worked()
            clock.pass_(3)
            run.report(step)
        assert run.waiting_share == 0.75


@pytest.mark.proves("sdk.md#reference/stale-share-float")
@pytest.mark.usefixtures("term")
def test_the_share_of_stale_samples_is_of_all_that_came(clock: Clock) -> None:
    with make(clock) as run:
        for _ in range(4):
            with run.iteration(30, stale=10):
                clock.pass_(1)
        assert run.stale_share == 0.25
