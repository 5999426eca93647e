"""The API server's time, whatever the wall clock of this machine says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from di_operator.process.clock import ServerClock, SystemClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class LocalClock:
    """Both clocks stand still until told."""

    def __init__(self) -> None:
        self.wall, self.since = NOON, 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.since

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("no test sleeps here")

    def pass_time(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.since += seconds


def http_date(moment: datetime) -> str:
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_the_time_is_local_before_the_first_answer() -> None:
    clock = ServerClock(LocalClock())
    clock.observe("yesterday")
    assert clock.now() == NOON


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wrong_local_wall_clock_does_not_change_the_time(hours: int) -> None:
    local = LocalClock()
    clock = ServerClock(local)
    clock.observe(http_date(NOON))
    local.wall += timedelta(hours=hours)
    local.pass_time(90)
    assert clock.now() == NOON + timedelta(seconds=90)


def test_answers_correct_a_local_clock_that_runs_fast() -> None:
    local = LocalClock()
    clock = ServerClock(local)
    for second in range(0, 3600, 10):
        clock.observe(http_date(NOON + timedelta(seconds=second)))
        local.pass_time(11)
        assert abs(clock.now() - NOON - timedelta(seconds=second + 10)) <= timedelta(seconds=3)


def test_whole_seconds_and_slow_answers_do_not_set_the_time_back() -> None:
    local = LocalClock()
    clock = ServerClock(local)
    clock.observe(http_date(NOON))
    local.pass_time(1.9)
    clock.observe(http_date(NOON + timedelta(seconds=1)))
    assert clock.now() == NOON + timedelta(seconds=1.9)


def test_the_time_follows_a_server_clock_that_is_set_back() -> None:
    local = LocalClock()
    clock = ServerClock(local)
    clock.observe(http_date(NOON))
    clock.observe(http_date(NOON - timedelta(hours=1)))
    assert clock.now() == NOON - timedelta(hours=1)


def test_the_system_clock_is_in_utc_and_never_goes_back() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= before
