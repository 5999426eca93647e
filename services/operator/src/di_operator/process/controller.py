"""Workers that take keys from the queue and reconcile them, one at a time for each key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import NamedTuple, Protocol

import structlog

from di_kube.errors import ApiError
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.queue import KeyedBackoff, KeyQueue, QueueClosed

log = structlog.get_logger(__name__)


class JobKey(NamedTuple):
    """A job by name; which job of that name is decided from the state read at the time."""

    namespace: str
    name: str


def job_queue(*, workers: int) -> KeyQueue[JobKey]:
    """The queue of so many workers, in which namespaces take turns.

    A job of thousands of pods has its worker for a minute. However many of them a namespace has, a
    quarter of the workers is left to others.
    """
    return KeyQueue(group=attrgetter("namespace"), at_once=max(1, workers * 3 // 4))


class Outdated(Exception):
    """The objects are not what the decision was made from: decide again."""


class Observer(Protocol):
    """What the controller tells the metrics."""

    def reconciled(self, result: str, seconds: float) -> None:
        """Count one reconcile with its result (`ok`, `retry`, `error`) and duration."""
        ...


class Controller:
    """Runs `reconcile` for every key of the queue.

    `reconcile` returns the delay in seconds after which it wants to look again, or None. When it
    raises, the key comes back after its back-off, or after the server's Retry-After if that is
    longer. A defect in one job's reconcile never stops the others; `report` tells of it where the
    job's author looks. Once the lease is lost (`loss`) no reconcile begins, and what the last ones
    raised is no defect.
    """

    def __init__(
        self,
        *,
        reconcile: Callable[[JobKey], Awaitable[float | None]],
        report: Callable[[JobKey, Exception], Awaitable[None]],
        queue: KeyQueue[JobKey],
        backoff: KeyedBackoff[JobKey],
        workers: int,
        loss: Loss,
        monotonic: Callable[[], float],
        observer: Observer,
    ) -> None:
        self._reconcile = reconcile
        self._report = report
        self._queue = queue
        self._backoff = backoff
        self._workers = workers
        self._loss = loss
        self._monotonic = monotonic
        self._observer = observer

    async def run(self) -> None:
        """Work until the queue is closed or the lease is lost, and the reconciles under way have
        ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while self._loss.reason is None:
            try:
                key = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._handle(key)
            finally:
                self._queue.done(key)

    async def _handle(self, key: JobKey) -> None:
        started = self._monotonic()
        try:
            requeue_after = await self._reconcile(key)
        except NotLeading:
            return
        except (ApiError, Outdated) as error:
            result = "retry"
            wait = error.retry_after if isinstance(error, ApiError) else None
            delay = max(self._backoff.next(key), wait or 0.0)
            log.warning(
                "reconcile postponed",
                namespace=key.namespace,
                name=key.name,
                error=str(error),
                retry_in=round(delay, 3),
            )
            self._queue.add_after(key, delay)
        except Exception as error:
            if self._loss.reason is not None:
                # NotLeading among others, perhaps: of several at a time a group makes its own.
                return
            result = "error"
            delay = self._backoff.next(key)
            log.exception(
                "reconcile failed",
                namespace=key.namespace,
                name=key.name,
                retry_in=round(delay, 3),
            )
            await self._report(key, error)
            self._queue.add_after(key, delay)
        else:
            result = "ok"
            self._backoff.forget(key)
            if requeue_after is not None:
                self._queue.add_after(key, requeue_after)
        self._observer.reconciled(result, self._monotonic() - started)
