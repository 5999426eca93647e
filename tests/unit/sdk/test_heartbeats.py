"""Heartbeats: while the loop goes on, at a bounded rate, and from the right processes."""

from __future__ import annotations

import queue

import pytest

import di_orchestrator as di
from di_api import names
from di_api.status import heartbeats as recorded
from di_orchestrator.errors import Unreachable
from di_orchestrator.training_run import heartbeats
from di_orchestrator.training_run.heartbeats import Heartbeats
from tests.unit.sdk.conftest import Clock
from tests.unit.server.fakes import Harness
from tests.waiting import wait_until


class Beating:
    """Heartbeats without their thread."""

    def __init__(self, clock: Clock, *, within: float = 300.0) -> None:
        self.clock = clock
        self.found = Heartbeats(None, within=within, clock=clock)

    def after(self, seconds: float) -> int | None:
        """The limit that is sent at a call after so many seconds."""
        self.clock.pass_(seconds)
        self.found.beat()
        return self.found.due()


def test_a_third_of_the_limit_is_between_two_heartbeats(clock: Clock) -> None:
    beating = Beating(clock)
    sent = [beating.after(10) for _ in range(100)]
    assert [index for index, limit in enumerate(sent) if limit is not None][1:4] == [10, 20, 30]
    assert set(sent) == {None, 300}


def test_a_loop_that_stops_sends_no_heartbeat(clock: Clock) -> None:
    beating = Beating(clock)
    assert (beating.after(1), beating.after(1)) == (300, None)
    sent = []
    for _ in range(10):
        clock.pass_(1000)
        sent.append(beating.found.due())
    # The last call before the stop is still reported.
    assert sent == [300, *[None] * 9]
    assert beating.after(1) is not None


def test_the_limit_grows_with_the_longest_round(clock: Clock) -> None:
    beating = Beating(clock)
    assert (beating.after(0), beating.found.limit) == (300, 300)
    assert beating.after(200) == 600
    assert beating.after(1) is None
    assert beating.after(200) == 600
    assert beating.after(1_000_000) == recorded.MOST_SECONDS
    assert Beating(clock, within=1).found.limit == recorded.LEAST_SECONDS


def test_a_pod_in_a_long_phase_is_not_silent(clock: Clock) -> None:
    beating = Beating(clock)
    beating.after(1)
    with beating.found.busy():
        sent = []
        for _ in range(10):
            clock.pass_(100)
            sent.append(beating.found.due())
    assert sent == [300] * 10
    assert beating.after(1) is None
    assert beating.found.limit == 300


def test_a_failed_heartbeat_is_tried_again_with_the_next(clock: Clock) -> None:
    tried: queue.Queue[int] = queue.Queue()

    def fail(limit: int) -> None:
        tried.put(limit)
        raise Unreachable("away")

    found = Heartbeats(fail, clock=clock)
    for _ in range(3):
        found.beat()
        clock.pass_(100)
        found.beat()
        assert tried.get(timeout=60) == 300
        clock.pass_(100)
    found.close()
    found.beat()
    assert tried.empty()


@pytest.mark.usefixtures("learner")
@pytest.mark.proves("sdk.md#heartbeats")
def test_a_training_sends_heartbeats_of_its_pod(harness: Harness) -> None:
    with di.training(reports=False):
        assert di.current_pod._pod._heartbeats is None
    with di.training(reports=False, heartbeat=300) as run:
        run.report(1)
        run.report(2)
        wait_until(lambda: "progress" in harness.job().get("status", {}))
    assert [*harness.job()["status"]["progress"]] == ["heartbeats"]
    (beat,) = harness.job()["status"]["progress"]["heartbeats"].items()
    assert (beat[0], beat[1]["withinSeconds"]) == ("cartpole-learner-0", 300)


@pytest.mark.usefixtures("learner")
@pytest.mark.proves("sdk.md#reference/di-heartbeat-within-float-300-0-none")
def test_a_program_without_a_training_sends_heartbeats(harness: Harness) -> None:
    for _ in range(2):
        di.heartbeat(within=60)
    wait_until(lambda: "progress" in harness.job().get("status", {}))
    beats = harness.job()["status"]["progress"]["heartbeats"]
    assert beats["cartpole-learner-0"]["withinSeconds"] == 60


@pytest.mark.usefixtures("learner")
@pytest.mark.parametrize(
    ("name", "value"), [("LOCAL_RANK", "1"), (names.ENV_RANK, str(heartbeats.MOST_PODS))]
)
def test_other_processes_and_pods_send_none(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert di.current_pod._pod.heartbeats(60) is None
    di.heartbeat()


def test_outside_a_job_there_are_no_heartbeats() -> None:
    di.heartbeat()
    assert di.current_pod._pod.heartbeats(60) is None


def test_the_bounds_are_those_of_di_server() -> None:
    bounds = (heartbeats.MOST_PODS, heartbeats._LEAST_SECONDS, heartbeats._MOST_SECONDS)
    assert bounds == (recorded.MAX_MEMBERS, recorded.LEAST_SECONDS, recorded.MOST_SECONDS)
