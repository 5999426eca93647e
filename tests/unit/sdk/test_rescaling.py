"""A learner gets the collectors that it wants while it goes on, and less where there is a bound."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import di_orchestrator as di
from di_api import names
from di_orchestrator.errors import Refused, Unreachable
from di_orchestrator.job import Job
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.rescaling import Rescaling
from di_orchestrator.training_run.training import CONCLUSIVE_LAPS, STARTING_SECONDS, Training
from tests.unit.sdk.conftest import LEARNER, Clock
from tests.unit.sdk.trainings import Told, leave, train
from tests.unit.server.fakes import Harness
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("term")


class Bounded:
    """A fake di-server with a bound."""

    def __init__(self, least: int = 1, most: int = 100) -> None:
        self.least, self.most = least, most
        self.count: int | None = None
        """The present count; None: an older server, which does not return it."""
        self.asked: list[int] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, count: int) -> int:
        assert self.go_on.wait(60)
        self.asked.append(count)
        if not self.least <= count <= self.most:
            raise Refused("PUT replicas", 422, "a bound")
        if self.count is not None:
            self.count = count
        return count

    def replicas(self) -> int:
        if self.count is None:
            raise Refused("GET tasks", 404, "no such path")
        return self.count


@pytest.mark.parametrize(
    ("now", "wanted", "asked", "granted"),
    [
        pytest.param(4, 8, [8], 8, id="within the bound"),
        pytest.param(4, 12, [12, 8], 8, id="half of it is within the bound"),
        pytest.param(7, 14, [14, 10, 8], 8, id="one more is"),
        pytest.param(8, 16, [16, 12, 10, 9], None, id="it is at the bound"),
        pytest.param(4, 1, [1, 3], 3, id="fewer"),
        pytest.param(2, 1, [1], None, id="it is at the lower bound"),
    ],
)
def test_a_refused_step_is_halved(
    now: int, wanted: int, asked: list[int], granted: int | None
) -> None:
    server = Bounded(least=2, most=8)
    rescaling = Rescaling(server, server.replicas)
    rescaling.ask(now, wanted)
    assert rescaling.is_settled(30)
    assert server.asked == asked
    assert rescaling.take() == granted
    assert not rescaling.is_settled()


def test_an_unreachable_server_gets_one_request(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []

    def away(count: int) -> int:
        asked.append(count)
        raise Unreachable("away")

    def unknown() -> int:
        raise Refused("GET tasks", 404, "no such path")

    rescaling = Rescaling(away, unknown)
    for _ in range(2):
        rescaling.ask(4, 8)
        assert rescaling.is_settled(30)
        assert rescaling.take() is None
    assert asked == [8, 8]
    assert [record.message for record in caplog.records] == ["away (said once)"]


def test_without_the_present_count_no_request_is_sent() -> None:
    server = Bounded()

    def away() -> int:
        raise Unreachable("away")

    rescaling = Rescaling(server, away)
    rescaling.ask(4, 8)
    assert rescaling.is_settled(30)
    assert (rescaling.take(), server.asked) == (None, [])


def make(clock: Clock, server: Bounded, told: Told | None = None) -> Training:
    return Training(
        Job.of(LEARNER),
        told,  # type: ignore[arg-type]
        Checkpoints(clock=clock),
        known={},
        rescaling=Rescaling(server, server.replicas),
        clock=clock,
    )


def granted(run: Training) -> int:
    """What it is answered in the end."""
    found: list[int] = []

    def answered() -> bool:
        there = run.rescale()
        found.extend([] if there is None else [there])
        return bool(found)

    wait_until(answered)
    return found[0]


@pytest.mark.proves("sdk.md#reference/rescale-least-int-1-most-int-none-none")
def test_rescaling_does_not_wait_and_restarts_the_measurement(clock: Clock) -> None:
    server, told = Bounded(), Told()
    with make(clock, server, told) as run:
        server.go_on.clear()
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert [run.rescale(), run.rescale()] == [None, None]
        run.report(1)
        assert "collectors" not in told.reports[-1]
        server.go_on.set()
        assert granted(run) == 4
        assert (run.collectors, run.advise()) == (4, None)
        run.report(2)
        assert told.reports[-1]["collectors"] == 4
        assert server.asked == [4]


@pytest.mark.proves("sdk.md#reference/collectors-int-none")
def test_the_present_count_is_read_at_the_start(clock: Clock) -> None:
    """The pod started with two; what was scaled before its program was started again, it knew."""
    server, told = Bounded(), Told()
    server.count = 5
    with make(clock, server, told) as run:
        assert granted(run) == 5
        run.report(1)
        assert (run.collectors, told.reports[-1]["collectors"]) == (5, 5)
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == 10
    assert server.asked == [10]


@pytest.mark.parametrize("count", [3, 1])
def test_a_scaling_by_others_is_measured_first(clock: Clock, count: int) -> None:
    server = Bounded()
    server.count = 2
    with make(clock, server) as run:
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == 4
        server.count = count
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == count
        assert server.asked == [4]
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == 2 * count
    assert server.asked == [4, 2 * count]


def test_the_last_report_has_the_granted_count(clock: Clock) -> None:
    server, told = Bounded(), Told()
    with make(clock, server, told) as run:
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert run.rescale() is None
    assert told.reports[-1]["collectors"] == 4


def test_after_a_refusal_the_next_request_follows_a_measurement(clock: Clock) -> None:
    server = Bounded(most=2)
    with make(clock, server) as run:
        for asked in ([4, 3], [4, 3] * 2):
            train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
            assert run.rescale() is None
            assert run._rescaling is not None
            assert run._rescaling.is_settled(30)
            assert [run.rescale(), run.rescale()] == [None, None]
            assert server.asked == asked
        assert run.collectors == 2


def test_no_more_collectors_are_requested_while_some_are_starting(clock: Clock) -> None:
    server = Bounded()
    with make(clock, server) as run:
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == 4
        run.report(collectors=3)
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert run.advise() == 6
        assert run.rescale() is None
        assert server.asked == [4]
        # Fewer may be had at any time.
        train(run, clock, 6 * CONCLUSIVE_LAPS, waiting=0.0, stale=10)
        assert granted(run) == 2
        run.report(collectors=1)
        clock.pass_(STARTING_SECONDS)
        train(run, clock, 6 * CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == 2
    assert server.asked == [4, 2, 2]


@pytest.mark.usefixtures("learner")
def test_rescaling_scales_the_job(harness: Harness, clock: Clock) -> None:
    with di.training() as run:
        run._clock = run._stopwatch._clock = clock
        run._changed = clock()
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert granted(run) == 4
    assert harness.replicas() == 4
    assert harness.job()["status"]["profilings"]["collectors"] == 4


@pytest.mark.usefixtures("learner")
def test_the_first_of_several_learners_rescales(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setenv(names.ENV_TASK_RANK, "1")
    with di.training() as run:
        run._clock = run._stopwatch._clock = clock
        run._changed = clock()
        train(run, clock, CONCLUSIVE_LAPS, waiting=0.5)
        assert run.advise() == 4
        assert [run.rescale(), run.rescale()] == [None, None]
    assert harness.replicas() == 2


@pytest.mark.usefixtures("learner")
def test_samples_may_come_from_a_task_of_another_name(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setenv("DI_ROLLOUT_NODES", "a,b,localhost")
    with di.training(samples_from="rollout") as run:
        assert run.collectors == 2
        di.scale("collector", to=3)
        assert run.collectors == 2
        assert run.rescale() is None
    with di.training() as run:
        di.scale("collector", to=4)
        assert run.collectors == 4


@pytest.mark.proves("sdk.md#reference/di-leaving-threading-event")
def test_leaving_is_set_and_the_earlier_handler_is_called() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        leaving = di.leaving()
        assert di.leaving() is leaving
        with di.training() as run:
            assert not leaving.is_set()
            leave()
            assert leaving.wait(60)
            assert run.leaving.wait(60)
        assert heard == [signal.SIGTERM]
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == 2 * [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
