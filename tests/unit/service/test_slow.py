"""Sources that do what no good client does are served slowly; others do not notice."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from di_service.serving import arrivals, turns
from di_service.serving.arrivals import Arrivals
from di_service.serving.connections import Connection, Connections
from di_service.serving.penalties import FAULTS_AT_ONCE, FAULTS_PER_SECOND, Penalties
from di_service.serving.turns import Flow, Turns
from di_service.token_buckets import TokenBuckets
from tests.unit.asynchronous import asynchronous
from tests.waiting import DEADLINE


class Clock:
    """Seconds that pass when the test moves them."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_source_above_its_burst_of_faults_is_slowed_until_it_refills() -> None:
    clock = Clock()
    penalties = Penalties(clock=clock)
    for _ in range(FAULTS_AT_ONCE):
        assert not penalties.slows("a")
        penalties.count("a", "noise")
    assert penalties.slows("a")
    assert not penalties.slows("b")
    clock.now += 1 / FAULTS_PER_SECOND
    assert not penalties.slows("a")
    penalties.count("a", "noise")
    assert penalties.slows("a")


def test_a_slowed_source_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    penalties = Penalties(clock=clock)

    def lines() -> int:
        return len([each for each in caplog.messages if "10.0.0.9" in each and "noise" in each])

    with caplog.at_level(logging.WARNING, "gunicorn.error"):
        for _ in range(FAULTS_AT_ONCE):
            penalties.count("10.0.0.9", "noise")
        assert lines() == 0
        for _ in range(50):
            penalties.count("10.0.0.9", "noise")
        assert lines() == 1
        clock.now += 60
        for _ in range(FAULTS_AT_ONCE + 1):
            penalties.count("10.0.0.9", "noise")
        assert lines() == 2


def test_the_number_of_remembered_sources_is_bounded() -> None:
    penalties = Penalties(clock=Clock())
    for _ in range(FAULTS_AT_ONCE):
        penalties.count("first", "noise")
    for number in range(10_000):
        penalties.count(str(number), "noise")
    assert not penalties.slows("first")


class Hall:
    """Connections by name, of the source that the name begins with; what became of them."""

    def __init__(
        self, *, slow: str = "", seconds: float = 60.0, at_once: int = 50, per_second: float = 1e-6
    ) -> None:
        self.pace = TokenBuckets[str](rate=per_second, burst=at_once, clock=time.monotonic)
        self.connections = Connections(most=100, most_of_source=50, kept=self.pace.give)
        self.arrivals = Arrivals(
            seconds=seconds, pace=self.pace, slows=lambda source: source in slow
        )
        self.gone: set[str] = set()
        """Those that have hung up."""
        self.begun: list[str] = []
        self.dropped: list[str] = []

    def come(self, *names: str) -> list[Connection]:
        """Each gets a place and waits."""
        return [self._come(name) for name in names]

    def _come(self, name: str) -> Connection:
        connection = self.connections.admit(name[0], lambda: None)
        assert connection is not None
        self.arrivals.add(
            connection,
            begin=lambda: self.begun.append(name),
            drop=lambda: self.dropped.append(name),
            gone=lambda: name in self.gone,
        )
        return connection

    async def turns(self, number: int) -> None:
        """Let the event loop turn so many times."""
        for _ in range(number):
            await asyncio.sleep(0)


@asynchronous
async def test_sources_begin_in_turn() -> None:
    hall = Hall()
    hall.come("a1", "a2", "a3", "a4", "a5", "b1", "c1")
    await hall.turns(10)
    assert hall.begun == ["a1", "b1", "c1", "a2", "a3", "a4", "a5"]


@asynchronous
async def test_the_event_loop_runs_between_connections_that_begin() -> None:
    hall = Hall()
    hall.come(*(f"a{number}" for number in range(20)))
    await hall.turns(3)
    assert 0 < len(hall.begun) < 10


@asynchronous
async def test_a_slow_source_begins_one_at_a_time_and_others_do_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals, "SLOW_SECONDS", 60.0)
    hall = Hall(slow="a")
    hall.come("a1", "a2", "a3")
    await hall.turns(10)
    hall.come("b1", "b2")
    await hall.turns(10)
    assert hall.begun == ["a1", "b1", "b2"]


@asynchronous
async def test_a_source_above_its_burst_waits_and_others_do_not() -> None:
    hall = Hall(at_once=3)
    hall.come("a1", "a2", "a3", "a4", "a5")
    await hall.turns(20)
    hall.come("b1", "b2", "a6")
    await hall.turns(20)
    assert hall.begun == ["a1", "a2", "a3", "b1", "b2"]


@asynchronous
async def test_a_waiting_source_goes_on_at_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall(slow="b", at_once=1, per_second=100.0)
    monkeypatch.setattr(arrivals, "SLOW_SECONDS", 3600.0)
    # The other one's pause, which is longer, does not hold it up.
    hall.come("b1", "b2", "a1", "a2", "a3")
    async with asyncio.timeout(DEADLINE):
        while "a3" not in hall.begun:
            hall.come("b9")
            await asyncio.sleep(0.005)
    assert hall.begun == ["b1", "a1", "a2", "a3"]


@asynchronous
async def test_a_waiting_connection_that_hangs_up_is_dropped_without_cost() -> None:
    hall = Hall(at_once=2)
    hall.gone |= {"a1", "a2", "a3", "a6"}
    hall.come("a1", "a2", "a3", "a4", "a5", "a6")
    await hall.turns(10)
    assert hall.begun == ["a4", "a5"]
    assert hall.dropped == ["a1", "a2", "a3"]
    assert len(hall.connections) == 3


@asynchronous
async def test_a_reused_connection_lets_its_source_open_another() -> None:
    hall = Hall(at_once=2)
    first, second = hall.come("a1", "a2")
    await hall.turns(5)
    for each in (first, second):
        each.begin()
        each.answered()
    hall.come("a3", "a4", "a5")
    await hall.turns(5)
    # A first answer is what every connection has.
    assert hall.begun == ["a1", "a2"]
    for _ in range(2):
        first.begin()
        first.answered()
    hall.come("a6")
    await hall.turns(10)
    assert hall.begun == ["a1", "a2", "a3", "a4"]


@asynchronous
async def test_a_single_waiting_connection_goes_on_after_its_delay() -> None:
    hall = Hall(at_once=1, per_second=100.0)
    hall.come("a1")
    await hall.turns(5)
    hall.come("a2")
    async with asyncio.timeout(DEADLINE):
        while "a2" not in hall.begun:
            await asyncio.sleep(0.005)
    assert hall.begun == ["a1", "a2"]


@asynchronous
async def test_a_slow_source_goes_on_after_its_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "SLOW_SECONDS", 0.01)
    hall = Hall(slow="a")
    hall.come("a1", "a2", "a3")
    async with asyncio.timeout(DEADLINE):
        while len(hall.begun) < 3:
            await asyncio.sleep(0.005)
    assert hall.begun == ["a1", "a2", "a3"]


@asynchronous
async def test_a_connection_that_waits_too_long_or_is_ended_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals, "SLOW_SECONDS", 0.05)
    hall = Hall(slow="a", seconds=0.01)
    _, second, *_ = hall.come("a1", "a2", "a3", "a4")
    second.end()
    assert hall.dropped == ["a2"]
    async with asyncio.timeout(DEADLINE):
        while hall.dropped != ["a2", "a3", "a4"]:
            await asyncio.sleep(0.005)
    assert hall.begun == ["a1"]
    assert len(hall.connections) == 1


@asynchronous
async def test_on_close_all_connections_but_slow_ones_begin() -> None:
    hall = Hall(slow="a")
    hall.come("a1", "a2", "b1", "b2", "b3")
    hall.arrivals.close()
    await hall.turns(5)
    assert hall.begun == ["b1", "b2", "b3"]
    assert hall.dropped == ["a1", "a2"]


@asynchronous
async def test_a_slow_source_has_one_turn_and_a_delay_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "SLOW_SECONDS", 0.02)
    slow = Turns(2, slows=lambda source: source == "a")
    first = await slow.take(Flow("a"), 1)
    for patience in (0.0, 0.01):
        with pytest.raises(TimeoutError):
            await slow.take(Flow("a"), patience)
    # The other place is there for others meanwhile.
    slow.give_back(await slow.take(Flow("b"), 0))
    slow.give_back(first)
    with pytest.raises(TimeoutError):
        await slow.take(Flow("a"), 0)
    await slow.take(Flow("a"), 10)
