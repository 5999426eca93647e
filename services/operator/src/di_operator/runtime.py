"""How the parts of the operator run together: fill the caches, lead, shut down."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from di_kube.cache import WatchCache
from di_kube.resources import Resource
from di_operator.cluster.comparison import Compared, Comparisons
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.cluster.informer_state import InformerState
from di_operator.process.clock import Clock
from di_operator.process.controller import Controller, JobKey
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.queue import KeyQueue
from di_operator.process.supervision import Duty, Supervisor

log = structlog.get_logger(__name__)

# Kubernetes sends SIGKILL 30 s after SIGTERM. All waits together are shorter than the process's
# deadline (`exit_deadline.SECONDS`), whatever hangs.
DRAIN_SECONDS = 10.0
EVENT_DRAIN_SECONDS = 2.0
RELEASE_SECONDS = 4.0
# Delay after which a task that has not ended is cancelled again, and how often in all.
CANCEL_SECONDS = 1.0
CANCELLATIONS = 3
# A replica that has not tried to take or renew the lease for so long is of no use, and can keep
# others from leading. An attempt takes three requests of 4 s at most.
IDLE_SECONDS = 30.0
# A watch that is behind by more than this bases decisions on the past; bookmarks arrive every
# minute.
STALE_SECONDS = 90.0
# New objects before the garbage collector runs. A decision creates thousands that are freed at once
# and have no cycles: with Python's default of 700 it would run several times per decision.
COLLECT_AFTER = 10_000


class Leadership(Protocol):
    """An election, or its stand-in for a single replica."""

    @property
    def idle(self) -> float:
        """Return the seconds since the last attempt to acquire or renew the lease."""
        ...

    def holds(self) -> bool:
        """Return whether writes are allowed now."""
        ...

    async def acquire(self) -> None:
        """Return once this replica leads."""
        ...

    async def keep(self) -> None:
        """Stay leader; raises NotLeading when that ends, after the Loss was declared."""
        ...

    async def release(self) -> None:
        """Release the lease, so that another replica leads at once."""
        ...


class Follower(Compared, Protocol):
    """A watch of objects that not every cluster has."""

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


class Scope(Protocol):
    """A claim on the jobs of this release, or its stand-in."""

    held: asyncio.Event
    objection: str | None

    async def run(self) -> None:
        """Take the scope and keep it; raises NotLeading when it is lost, after the Loss was
        declared.
        """
        ...


class Runtime:
    """One replica of the operator."""

    def __init__(
        self,
        *,
        caches: Mapping[Resource, WatchCache],
        informers: InformerState,
        queue: KeyQueue[JobKey],
        controller: Controller,
        recorder: EventRecorder,
        kueue: Follower,
        polled: Collection[WatchCache],
        scope: Scope,
        leadership: Leadership,
        duties: Mapping[str, Duty],
        supervisor: Supervisor,
        loss: Loss,
        sync_period: float,
        clock: Clock,
        on_ending: Callable[[], None] = lambda: None,
    ) -> None:
        """`duties` are further parts that run only while this replica leads, `polled` the caches
        that they fill.

        `on_ending` is called when the shutdown begins, perhaps more than once.
        """
        self._caches = caches
        self._queue = queue
        self._controller = controller
        self._recorder = recorder
        self._kueue = kueue
        self._comparisons = Comparisons(
            informers=informers,
            caches=caches.values(),
            kueue=kueue,
            polled=polled,
            clock=clock,
        )
        self._scope = scope
        self._leadership = leadership
        self._duties = duties
        self._supervisor = supervisor
        self._loss = loss
        self._on_ending = on_ending
        self._is_candidate = False
        # The parts that write; only the leader has any.
        self._writers: Sequence[asyncio.Task[None]] = ()
        self._sync_period = sync_period
        self._clock = clock

    def unready(self) -> str | None:
        """Return why this replica is not ready, None if it is. A standby replica with filled caches
        is ready.
        """
        for resource, cache in self._caches.items():
            if not cache.synced.is_set():
                return f"{resource.plural} are not listed yet"
            if cache.away > STALE_SECONDS:
                return f"no answer about {resource.plural} for {cache.away:.0f} s"
        return self._scope.objection

    def stuck(self) -> str | None:
        """Return why the process has to be restarted, None if it need not be.

        A replica that waits for the API server or for the claim is not stuck. After that it either
        renews the lease or tries to take it, all the time.
        """
        if self._is_candidate and (idle := self._leadership.idle) > IDLE_SECONDS:
            return f"neither leads nor stands by: the lease was not tried for {idle:.0f} s"
        return None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; then finish running work and release the lease.

        Standby replicas keep their caches filled, so a fail-over takes no longer than the lease.

        Raises:
            NotLeading: the lease was lost, or the claim. The process should exit: its outstanding
                writes must overlap with the next leader's work for as short as possible.
        """
        stopping = asyncio.create_task(stop.wait(), name="stop")
        watches = [
            self._start(f"watch {resource.plural}", cache.run)
            for resource, cache in self._caches.items()
        ]
        watches.append(self._start("watch Kueue", self._kueue.run))
        claim = self._start("claim", self._scope.run)
        lost = asyncio.create_task(self._loss.wait(), name="loss")
        background: list[asyncio.Task[Any]] = [stopping, lost, *watches, claim]
        becoming = asyncio.create_task(self._become_leader(), name="election")
        try:
            await _first([becoming, *background])
            if becoming.done() and not lost.done():
                becoming.result()
                await self._lead(stopping, [lost, *watches, claim])
        finally:
            self._begin_end()
            await _end([becoming, *background])
            if all(task.done() for task in (becoming, *self._writers)):
                # Also a lease that was acquired the moment before the stop.
                await self._release()
            else:
                # A part that still writes must not overlap with the next leader: the lease expires
                # instead.
                log.error("lease not released: a part did not end")
        if self._loss.reason is not None and not stop.is_set():
            raise NotLeading(self._loss.reason)

    def _begin_end(self) -> None:
        self._supervisor.stop()
        self._on_ending()

    async def _become_leader(self) -> None:
        for cache in self._caches.values():
            await cache.synced.wait()
        # The caches live as long as the process. The garbage collector must not traverse them again
        # and again, which takes a tenth of a second at ten thousand jobs.
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
        log.info("caches filled", objects=sum(len(cache) for cache in self._caches.values()))
        await self._scope.held.wait()
        self._is_candidate = True
        await self._leadership.acquire()

    async def _lead(
        self, stopping: asyncio.Task[bool], conditions: Sequence[asyncio.Task[None]]
    ) -> None:
        """Work until one of `conditions` ends, which every decision depends on."""
        events = self._start("events", self._recorder.run)
        keep = self._start("lease", self._leadership.keep)
        work = self._start("controller", partial(self._work, stopping))
        duties = [
            self._start(name, duty) for name, duty in {"poll": self._poll, **self._duties}.items()
        ]
        self._writers = tasks = [work, events, keep, *duties]
        try:
            await _first([stopping, *conditions, *tasks])
            self._begin_end()
            if self._loss.reason is None:
                await self._drain(work, keep, events)
        finally:
            self._begin_end()
            await _end(tasks)

    async def _drain(
        self, work: asyncio.Task[None], keep: asyncio.Task[None], events: asyncio.Task[None]
    ) -> None:
        """Finish running work while the lease is held."""
        self._queue.close()
        log.info("draining")
        await asyncio.wait([work, keep], timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        self._recorder.drain()
        await asyncio.wait([events], timeout=EVENT_DRAIN_SECONDS)

    async def _release(self) -> None:
        releasing = asyncio.create_task(self._leadership.release(), name="release")
        await asyncio.wait([releasing], timeout=RELEASE_SECONDS)
        await _end([releasing])

    def _start(self, name: str, duty: Duty) -> asyncio.Task[None]:
        return asyncio.create_task(self._supervisor.keep(name, duty), name=name)

    async def _work(self, stopping: asyncio.Task[bool]) -> None:
        await self._comparisons.begin(self._controller.run, stopping)

    async def _poll(self) -> None:
        while True:
            await self._clock.sleep(self._sync_period)
            await self._comparisons.poll()


async def _first(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait for the first task to end, with or without an error."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, for CANCELLATIONS * CANCEL_SECONDS at most.

    Each task is cancelled repeatedly, because code that it awaits can swallow a cancellation.
    """
    left = set(tasks)
    for _ in range(CANCELLATIONS):
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
        if not left:
            break
    for task in tasks:
        if not task.done():
            log.error("a task did not end", task=task.get_name())
        elif not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task failed", task=task.get_name(), error=repr(error))
