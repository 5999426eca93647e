"""How a replica starts, leads and ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any

import pytest

from di_kube.errors import Unavailable
from di_kube.resources import DIJOBS, PODS
from di_operator.cluster.comparison import FIRST_PAUSE
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.leadership.release_claim import NoClaim
from di_operator.metrics.metrics import Metrics
from di_operator.process import exit_deadline
from di_operator.process.controller import Controller, JobKey
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.queue import KeyedBackoff, KeyQueue
from di_operator.process.supervision import Duty, Supervisor
from di_operator.runtime import (
    CANCEL_SECONDS,
    CANCELLATIONS,
    COLLECT_AFTER,
    DRAIN_SECONDS,
    EVENT_DRAIN_SECONDS,
    IDLE_SECONDS,
    RELEASE_SECONDS,
    Runtime,
)
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.virtual_time import VirtualClock
from tests.waiting import DEADLINE

KEY = JobKey("ns", "a")


class Cache:
    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.away = 0.0
        self.relists = 0
        self.fails = 0
        self.seconds = 0.0
        """Time that a comparison takes; another one meanwhile does nothing."""
        self._is_busy = False

    def __len__(self) -> int:
        return 1

    async def run(self) -> None:
        await asyncio.sleep(1)
        self.synced.set()
        await asyncio.Event().wait()

    async def relist(self) -> bool:
        self.relists += 1
        if self._is_busy:
            return False
        if self.relists <= self.fails:
            raise Unavailable(kind="DIJob", code=503)
        self._is_busy = True
        await asyncio.sleep(self.seconds)
        self._is_busy = False
        return True


class Leadership:
    """Leads when told to, and notes what happened in which order."""

    def __init__(self, diary: list[str], loss: Loss) -> None:
        self.diary = diary
        self.idle = 0.0
        self.release_seconds = 0.0
        self._loss = loss
        self.granted = asyncio.Event()
        self.taken = asyncio.Event()
        self.defects = 0

    def holds(self) -> bool:
        return self.granted.is_set()

    async def acquire(self) -> None:
        await self.granted.wait()
        self.diary.append("lead")

    async def keep(self) -> None:
        if self.defects:
            self.defects -= 1
            raise ZeroDivisionError("a mistake of ours")
        await self.taken.wait()
        raise self._loss.declare("taken")

    async def release(self) -> None:
        if self.granted.is_set():
            self.granted.clear()
            await asyncio.sleep(self.release_seconds)
            self.diary.append("release")


class InformerState:
    def __init__(self, queue: KeyQueue[JobKey]) -> None:
        self._queue = queue

        self.hidden = frozenset({"uid"})
        self.current = asyncio.Event()
        self.revealed = 0

    def reveal(self, uids: frozenset[str]) -> None:
        assert uids == self.hidden
        self.revealed += 1

    def wake_all(self) -> None:
        self._queue.add(KEY)

    def resync(self, now: datetime) -> None:
        self.wake_all()


class Bench:
    def __init__(
        self,
        reconcile: Callable[[JobKey], Awaitable[float | None]] | None = None,
        duties: Mapping[str, Duty] | None = None,
    ) -> None:
        self.times: list[float] = []
        """Of reconciles, if there is none for the test."""
        self.diary: list[str] = []
        self.ending: list[float] = []
        self.duty_fails = 0
        self.metrics = Metrics()
        self.cache = Cache()
        self.cache_of_pods = Cache()
        self.cache_of_duty = Cache()
        self.kueue = Cache()
        self.loss = Loss()
        self.leadership = Leadership(self.diary, self.loss)
        self.scope = NoClaim()
        self.stop = asyncio.Event()
        clock = VirtualClock()
        queue = KeyQueue[JobKey]()
        self.informers = InformerState(queue)
        loop = asyncio.get_running_loop()
        parts: dict[str, Any] = {
            "caches": {DIJOBS: self.cache, PODS: self.cache_of_pods},
            "polled": [self.cache_of_duty],
            "informers": self.informers,
            "leadership": self.leadership,
        }
        self.runtime = Runtime(
            queue=queue,
            controller=Controller(
                reconcile=reconcile or self._note_time,
                report=ignore,
                queue=queue,
                backoff=KeyedBackoff(minimum=1, maximum=60, rng=Random(1)),
                workers=2,
                loss=self.loss,
                monotonic=loop.time,
                observer=Metrics(),
            ),
            recorder=EventRecorder(
                client=FakeApi(),  # type: ignore[arg-type]  # the part of the client it uses
                clock=clock,
                instance="one",
                observer=Metrics(),
            ),
            kueue=self.kueue,
            scope=self.scope,
            duties={"duty": self._duty, **(duties or {})},
            supervisor=Supervisor(
                clock=clock, rng=Random(1), observer=self.metrics, loss=self.loss
            ),
            loss=self.loss,
            on_ending=lambda: self.ending.append(loop.time()),
            sync_period=60,
            clock=clock,
            **parts,
        )

    async def lead(self, seconds: float) -> asyncio.Task[None]:
        """Run a replica that leads for so many seconds, and longer."""
        self.leadership.granted.set()
        return await self.start(seconds)

    async def start(self, seconds: float) -> asyncio.Task[None]:
        self.running = asyncio.create_task(self.runtime.run(self.stop))
        await asyncio.sleep(seconds)
        return self.running

    async def end(self) -> None:
        self.stop.set()
        await self.running

    async def _note_time(self, _: JobKey) -> None:
        self.times.append(asyncio.get_running_loop().time())

    async def _duty(self) -> None:
        self.diary.append("duty")
        try:
            if self.duty_fails:
                self.duty_fails -= 1
                raise ValueError("not a quantity: 10GB")
            await asyncio.Event().wait()
        finally:
            self.diary.append("duty ends")

    def failures(self) -> float:
        """Failures of the duty as the metrics have them."""
        labels = {"duty": "duty"}
        return (
            self.metrics.registry.get_sample_value("di_operator_duty_failures_total", labels) or 0.0
        )


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    """A replica has its process for itself; the collector is as Python starts with it."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


async def ignore(_key: JobKey, _error: Exception) -> None:
    return None


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
