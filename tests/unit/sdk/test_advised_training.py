"""A training advises on the number of collectors from what it measured."""

from __future__ import annotations

import pytest

import di_orchestrator as di
from di_orchestrator import current_pod
from di_orchestrator.training_run.training import CONCLUSIVE_LAPS, CONCLUSIVE_SECONDS
from tests.unit.sdk.conftest import Clock
from tests.unit.sdk.trainings import make, train
from tests.unit.server.fakes import Harness

pytestmark = pytest.mark.usefixtures("term")


@pytest.mark.proves("sdk.md#reference/advise-least-int-1-most-int-none-none")
def test_advice_needs_a_conclusive_measurement(clock: Clock) -> None:
    with make(clock) as run:
        train(run, clock, CONCLUSIVE_LAPS - 1, waiting=0.5)
        assert run.advise() is None
        train(run, clock, 1, waiting=0.5)
        assert run.advise() == 4  # two collectors when it started
        run.now_collects(4)
        assert run.advise() is None
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        run.now_collects(4)  # the same count keeps the measurement
        assert run.advise() == 8
        run.now_collects(5)
        run.now_collects(4)
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.1)
        assert run.advise() is None
        train(run, clock, 2 * CONCLUSIVE_LAPS, waiting=0.0, stale=10)
        assert run.advise() == 3
        assert run.advise(least=4) is None
    assert CONCLUSIVE_SECONDS <= CONCLUSIVE_LAPS


@pytest.mark.proves("sdk.md#reference/di-advise-least-int-1-most-int-none-none")
@pytest.mark.usefixtures("learner")
def test_the_entered_training_gives_advice(harness: Harness, clock: Clock) -> None:
    assert di.advise() is None
    with di.training() as run:
        run._clock = clock
        run._stopwatch._clock = clock
        run._changed = clock()
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        wanted = di.advise(most=8)
        assert wanted == 4
        assert di.scale("collector", to=wanted) == 4
        assert di.advise() is None
        assert [current_pod._pod.training] == [run]
    assert [current_pod._pod.training] == [None]
    assert harness.replicas() == 4


@pytest.mark.proves("sdk.md#reference/now-collects-collectors-int-none")
def test_without_collectors_there_is_no_advice(clock: Clock) -> None:
    with make(clock, environment={}) as run:
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert run.advise() is None
        run.report(collectors=2)
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert run.advise() == 4
        run.now_collects(3)
        assert (run.collectors, run.advise()) == (3, None)
