"""A replica of the operator whose caches, leadership and duties do as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any

from di_kube.errors import Unavailable
from di_kube.resources import DIJOBS, PODS
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.leadership.release_claim import NoClaim
from di_operator.metrics.metrics import Metrics
from di_operator.process.controller import Controller, JobKey
from di_operator.process.lease_state import Loss
from di_operator.process.queue import KeyedBackoff, KeyQueue
from di_operator.process.supervision import Duty, Supervisor
from di_operator.runtime import Runtime
from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.virtual_time import VirtualClock

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


async def ignore(_key: JobKey, _error: Exception) -> None:
    return None
