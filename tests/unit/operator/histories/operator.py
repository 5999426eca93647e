"""One process of the operator: its caches, queue, workers and reconciler, wired as in production.

It has no periodic resync: what a change does not wake stays undone, and the history shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from typing_extensions import override

from di_operator.cluster.comparison import Comparisons
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.config import Config, load_config
from di_operator.leadership.election import SoleReplica
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.metrics.metrics import Metrics
from di_operator.process.lease_state import Loss
from di_operator.wiring import Base, beside, controller, duties, observe, reading
from di_service.tracing import tracing
from tests.unit.operator.histories.api import WatchedApi
from tests.unit.operator.virtual_time import VirtualClock

CONFIG = load_config((), {"DI_OPERATOR_NAMESPACE": "di-system"}, random_identity=lambda: "operator")
DUTIES = (
    *("pod trials", "watch nodes", "watch other pods", "watch quotas", "allocator"),
    *("watch dijobtasks", "job tasks", "watch disweeps", "sweeps"),
)
"""Duties of the leader that run, if the configuration has them."""
METRICS = Metrics()
TRACING = tracing(None, service="di-operator", ratio=0.0)


class Leadership(SoleReplica):
    """The leadership of a process until it ends."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss

    @override
    def holds(self) -> bool:
        return self._loss.reason is None

    @override
    def check(self) -> None:
        if self._loss.reason is not None:
            raise self._loss.declare(self._loss.reason)


class Events(EventRecorder):
    """Passes the events of the job on; sends none."""

    def __init__(self, passed_on: Callable[[JobEvent], None], **parts: Any) -> None:
        super().__init__(**parts)
        self._passed_on = passed_on

    @override
    def emit(self, job: Mapping[str, Any], event: JobEvent) -> None:
        self._passed_on(event)


class Operator:
    """A process of the operator, from its start to its end."""

    def __init__(
        self,
        api: WatchedApi,
        clock: VirtualClock,
        random: Random,
        on_event: Callable[[JobEvent], None],
        config: Config,
    ) -> None:
        self._loss = Loss()
        self._clock = clock
        base = Base(
            config=config,
            client=api,  # type: ignore[arg-type]  # the part of the client it uses
            clock=clock,
            rng=random,
            loss=self._loss,
            leadership=Leadership(self._loss),
            metrics=METRICS,
        )
        seen = observe(base)
        events = Events(
            on_event, client=base.client, clock=clock, instance="operator", observer=METRICS
        )
        seen = replace(seen, recorder=events)
        others = beside(base, seen)
        read = reading(base, seen, others)
        self._seen = seen
        self._scheduler = others.scheduler
        self._controller = controller(base, seen, others, read, TRACING)
        found = duties(base, seen, others, read)
        self._duties = [duty for name, duty in found.items() if name in DUTIES]
        self._comparisons = Comparisons(
            informers=seen.informers,
            caches=seen.caches.values(),
            kueue=seen.kueue,
            polled=seen.polled,
            clock=clock,
        )
        self._tasks: list[asyncio.Future[None]] = []
        self._stopping = asyncio.get_running_loop().create_future()

    async def stand_by(self) -> None:
        """Fill the caches, and follow the cluster from then on."""
        caches = self._seen.caches.values()
        self._tasks = [asyncio.ensure_future(cache.run()) for cache in caches]
        for cache in caches:
            await cache.synced.wait()

    def lead(self) -> None:
        """Start to decide, after another read of everything."""
        self._tasks += [
            asyncio.ensure_future(self._seen.kueue.run()),
            asyncio.ensure_future(self._comparisons.begin(self._controller.run, self._stopping)),
            *(asyncio.ensure_future(duty()) for duty in self._duties),
        ]

    async def start(self) -> None:
        """Fill the caches and start to decide."""
        await self.stand_by()
        self.lead()

    def known(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the operator knows beside the API server, as fields of `Sources`."""
        scheduler, trial = self._scheduler, self._seen.trials.known(job)
        if scheduler is None:
            return {"trial": trial}
        return {
            "grant": scheduler.grant(job),
            "nodes": scheduler.node_names(),
            "largest_node_memory": scheduler.largest_node_memory(),
            "could_run": lambda: scheduler.could_run(job),
            "trial": trial,
        }

    async def poll(self) -> None:
        """Compare the caches with the API server and reconcile all jobs, as every minute."""
        await self._comparisons.poll()

    async def stop(self) -> None:
        """End as by SIGKILL: requests that are under way may or may not arrive."""
        self._loss.declare("the process ended")
        self._seen.queue.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
