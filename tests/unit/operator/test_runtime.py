"""How a replica starts, leads and ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from di_operator.cluster.comparison import FIRST_PAUSE
from di_operator.process import exit_deadline
from di_operator.process.controller import JobKey
from di_operator.process.lease_state import NotLeading
from di_operator.process.supervision import Duty
from di_operator.runtime import (
    CANCEL_SECONDS,
    CANCELLATIONS,
    COLLECT_AFTER,
    DRAIN_SECONDS,
    EVENT_DRAIN_SECONDS,
    IDLE_SECONDS,
    RELEASE_SECONDS,
)
from tests.unit.operator import virtual_time
from tests.unit.operator.replica import Bench
from tests.waiting import DEADLINE


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    """A replica has its process for itself; the collector is as Python starts with it."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@virtual_time.in_virtual_time
async def test_a_standby_fills_its_caches_and_is_ready() -> None:
    bench = Bench()
    await bench.start(0)
    assert bench.runtime.unready() == "dijobs are not listed yet"
    await asyncio.sleep(600)
    assert bench.runtime.unready() is None
    await bench.end()
    assert (bench.times, bench.diary) == ([], [])


@virtual_time.in_virtual_time
async def test_the_garbage_collector_skips_the_caches_and_runs_less_often() -> None:
    frozen = gc.get_freeze_count()
    bench = Bench()
    await bench.start(600)
    assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == (COLLECT_AFTER, 10, 10)
    await bench.end()


@virtual_time.in_virtual_time
async def test_a_replica_without_the_claim_is_unready_and_does_not_lead() -> None:
    bench = Bench()
    bench.cache.synced.set()
    bench.scope.held.clear()
    bench.scope.objection = "somebody else looks after them"
    await bench.lead(600)
    assert bench.runtime.unready() == "somebody else looks after them"
    assert bench.diary == []
    await bench.end()


@virtual_time.in_virtual_time
async def test_a_watch_that_is_long_unreachable_makes_a_replica_unready() -> None:
    bench = Bench()
    bench.cache.synced.set()
    bench.cache.away = 120.0
    assert bench.runtime.unready() == "no answer about dijobs for 120 s"


@virtual_time.in_virtual_time
async def test_the_leader_reconciles_all_jobs_at_once_and_at_every_poll() -> None:
    bench = Bench()
    await bench.lead(150)
    assert bench.times == pytest.approx([1, 61, 121])
    assert bench.cache.relists == bench.informers.revealed == 3
    # A duty begins under the lease, so only the polls concern its cache.
    assert bench.cache_of_duty.relists == 2
    await bench.end()
    assert bench.diary == ["lead", "duty", "duty ends", "release"]


@virtual_time.in_virtual_time
async def test_a_kind_of_a_duty_that_is_not_served_any_more_fails_no_poll_of_jobs() -> None:
    bench = Bench()
    bench.cache_of_duty.fails = 1000
    await bench.lead(150)
    assert bench.cache_of_duty.relists == 2
    assert bench.informers.revealed == 3
    await bench.end()


@virtual_time.in_virtual_time
async def test_nothing_is_decided_before_a_full_read_under_the_lease() -> None:
    bench = Bench()
    bench.cache.fails = 3
    await bench.lead(1 + 2 * FIRST_PAUSE)
    assert not bench.informers.current.is_set()
    await asyncio.sleep(10)
    assert bench.informers.current.is_set()
    assert bench.times == pytest.approx([1 + (1 + 2 + 4) * FIRST_PAUSE])
    # What has been read is not read again because another list failed.
    assert bench.cache_of_pods.relists == bench.informers.revealed == 1
    await bench.end()


@virtual_time.in_virtual_time
async def test_a_long_read_is_waited_for_after_another_one_has_failed() -> None:
    bench = Bench()
    bench.cache.fails = 1
    bench.cache_of_pods.seconds = 20
    await bench.lead(20)
    assert not bench.informers.current.is_set()
    await asyncio.sleep(10)
    assert bench.times == pytest.approx([1 + 20 + FIRST_PAUSE])
    await bench.end()


@virtual_time.in_virtual_time
async def test_jobs_do_not_wait_for_a_read_of_kueue_that_fails() -> None:
    bench = Bench()
    bench.kueue.fails = 2
    await bench.lead(30)
    # Once more after it was read, for the jobs that have a queue.
    assert bench.times == pytest.approx([1, 1 + (1 + 2) * FIRST_PAUSE])
    await bench.end()


@virtual_time.in_virtual_time
async def test_a_replica_can_be_stopped_while_the_first_read_fails() -> None:
    bench = Bench()
    bench.cache.fails = 1000
    running = await bench.lead(10)
    bench.stop.set()
    await asyncio.wait_for(running, 2 * FIRST_PAUSE)


@virtual_time.in_virtual_time
async def test_a_running_reconcile_ends_before_the_lease_is_released() -> None:
    async def reconcile(_: JobKey) -> float | None:
        await asyncio.sleep(DRAIN_SECONDS / 2)
        bench.diary.append("reconciled")
        return 0.0

    bench = Bench(reconcile)
    await bench.lead(2)
    await bench.end()
    assert bench.diary == ["lead", "duty", "reconciled", "duty ends", "release"]


@virtual_time.in_virtual_time
async def test_a_hanging_reconcile_does_not_delay_the_end() -> None:
    async def reconcile(_: JobKey) -> float | None:
        await asyncio.sleep(3600)
        return None

    bench = Bench(reconcile)
    running = await bench.lead(2)
    bench.stop.set()
    await asyncio.wait_for(running, DRAIN_SECONDS + 1)
    assert bench.diary[-1] == "release"


@virtual_time.in_virtual_time
async def test_a_lost_lease_ends_everything_at_once() -> None:
    finished: list[JobKey] = []

    async def reconcile(key: JobKey) -> float | None:
        await asyncio.sleep(5)
        finished.append(key)
        return None

    bench = Bench(reconcile)
    running = await bench.lead(2)
    bench.leadership.taken.set()
    with pytest.raises(NotLeading):
        await asyncio.wait_for(running, 1)
    assert finished == []


@pytest.mark.proves("metrics.md#operator/di-operator-duty-failures-total")
@virtual_time.in_virtual_time
async def test_a_failed_duty_is_restarted_and_the_others_continue() -> None:
    bench = Bench()
    bench.duty_fails = 3
    await bench.lead(100)
    assert bench.diary == ["lead", *["duty", "duty ends"] * 3, "duty"]
    assert bench.times == pytest.approx([1, 61])
    assert bench.failures() == 3
    await bench.end()
    assert bench.diary[-2:] == ["duty ends", "release"]


@virtual_time.in_virtual_time
async def test_a_renewal_that_fails_by_a_defect_is_retried() -> None:
    bench = Bench()
    bench.leadership.defects = 2
    running = await bench.lead(100)
    assert not running.done()
    bench.leadership.taken.set()
    with pytest.raises(NotLeading):
        await running


async def answer_a_cancellation_with_an_error() -> None:
    """What a task group does that has errors of its own when it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        raise ExceptionGroup("of several", [ValueError("one"), KeyError("another")])


async def swallow_a_cancellation() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


async def swallow_every_cancellation() -> None:
    for _ in range(CANCELLATIONS):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "stopped"])
@pytest.mark.parametrize(
    "duty",
    [answer_a_cancellation_with_an_error, swallow_a_cancellation, swallow_every_cancellation],
)
@virtual_time.in_virtual_time
async def test_a_replica_ends_even_if_a_duty_ignores_its_cancellation(
    duty: Duty, is_lost: bool
) -> None:
    bench = Bench(duties={"stubborn": duty})
    running = await bench.lead(2)
    (bench.leadership.taken if is_lost else bench.stop).set()
    began = asyncio.get_running_loop().time()
    await asyncio.wait([running], timeout=CANCELLATIONS * CANCEL_SECONDS + 1)
    assert isinstance(running.exception(), NotLeading) is is_lost
    assert bench.ending[0] - began <= CANCEL_SECONDS
    assert bench.diary[-1] == "release"


@virtual_time.in_virtual_time
async def test_a_lease_lost_within_task_groups_ends_the_replica() -> None:
    async def write() -> None:
        await asyncio.sleep(1)
        raise bench.loss.declare("the lease is not held")

    async def reconcile(_: JobKey) -> float | None:
        async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
            outer.create_task(answer_a_cancellation_with_an_error())
            inner.create_task(write())
        return None

    bench = Bench(reconcile)
    bench.leadership.granted.set()
    with pytest.raises(NotLeading, match="the lease is not held"):
        await asyncio.wait_for(bench.runtime.run(bench.stop), DEADLINE)
    assert bench.failures() == 0


@virtual_time.in_virtual_time
async def test_a_stop_ends_within_the_bounds_whatever_hangs() -> None:
    async def reconcile(_: JobKey) -> float | None:
        await swallow_every_cancellation()
        return None

    bench = Bench(reconcile, duties={"stubborn": swallow_every_cancellation})
    bench.leadership.release_seconds = 3600
    running = await bench.lead(2)
    bench.stop.set()
    ends = 2 * CANCELLATIONS * CANCEL_SECONDS
    await asyncio.wait(
        [running], timeout=DRAIN_SECONDS + EVENT_DRAIN_SECONDS + RELEASE_SECONDS + ends
    )
    assert running.done()


@virtual_time.in_virtual_time
async def test_the_lease_is_kept_until_every_writing_duty_has_ended() -> None:
    async def never_end() -> None:
        while asyncio.get_running_loop().time() < 3600:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    bench = Bench(duties={"stubborn": never_end})
    await bench.lead(2)
    await bench.end()
    assert "release" not in bench.diary


@virtual_time.in_virtual_time
async def test_a_failing_release_of_the_lease_is_tried_once() -> None:
    tries = 0

    async def release() -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(3600)

    bench = Bench()
    bench.leadership.release = release  # type: ignore[method-assign]
    await bench.lead(2)
    await bench.end()
    assert tries == 1


def test_the_timeouts_of_an_orderly_end_fit_its_deadline() -> None:
    ends = 3 * CANCELLATIONS * CANCEL_SECONDS
    assert DRAIN_SECONDS + EVENT_DRAIN_SECONDS + RELEASE_SECONDS + ends <= exit_deadline.SECONDS


@virtual_time.in_virtual_time
async def test_a_replica_that_neither_renews_nor_tries_to_lead_is_stuck() -> None:
    bench = Bench()
    bench.leadership.idle = 2 * IDLE_SECONDS
    await bench.start(0.5)
    assert bench.runtime.stuck() is None, "its caches are not filled"
    await asyncio.sleep(1)
    assert bench.runtime.stuck() == (
        "neither leads nor stands by: the lease was not tried for 60 s"
    )
    bench.leadership.idle = 1.0
    assert bench.runtime.stuck() is None
    await bench.end()
