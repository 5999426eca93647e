"""Workers that take keys from the queue and reconcile them, each key by one worker at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

import structlog

from di_kube.errors import ApiError
from di_operator.process.clock import Clock
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.queue import KeyedBackoff, KeyQueue, QueueClosed

PART_BACKOFF: Final = (0.1, 15.0)
"""Smallest and largest delay in seconds before a part retries a failed job."""
log = structlog.get_logger(__name__)


class JobKey(NamedTuple):
    """A job by namespace and name; the state read at the time decides which job of that
    name it is.
    """

    namespace: str
    name: str


def job_queue(*, workers: int) -> KeyQueue[JobKey]:
    """Return the queue for so many workers, in which namespaces take turns.

    A job of thousands of pods occupies its worker for a minute. However many such jobs a namespace
    has, a quarter of the workers is left to others.
    """
    return KeyQueue(group=attrgetter("namespace"), at_once=max(1, workers * 3 // 4))


class Outdated(Exception):
    """The objects have changed since the decision was made: decide again."""


class Observer(Protocol):
    """The metrics that the controller updates."""

    def reconciled(self, result: str, seconds: float) -> None:
        """Count one reconcile with its result (`ok`, `retry`, `error`) and duration."""
        ...


class Part(Protocol):
    """A part of the leader that reconciles jobs beside the reconciler; see `Controller`."""

    async def reconcile(self, key: JobKey) -> float | None:
        """Write what one job needs now; return the delay until the next reconcile, or None."""
        ...

    async def report(self, key: JobKey, error: Exception) -> None:
        """Record a reconcile that failed by a defect of the operator."""
        ...


def controller_of(
    part: Part,
    *,
    queue: KeyQueue[JobKey],
    workers: int,
    loss: Loss,
    clock: Clock,
    rng: random.Random,
    observer: Observer,
    backoff: tuple[float, float] = PART_BACKOFF,
) -> Controller:
    """Return the controller of a part.

    Args:
        backoff: smallest and largest delay in seconds before a failed job is retried.
    """
    return Controller(
        reconcile=part.reconcile,
        report=part.report,
        queue=queue,
        backoff=KeyedBackoff(minimum=backoff[0], maximum=backoff[1], rng=rng),
        workers=workers,
        loss=loss,
        monotonic=clock.monotonic,
        observer=observer,
    )


class Controller:
    """Runs `reconcile` for every key of the queue.

    `reconcile` returns the delay in seconds until its next run, or None. When it raises, the key
    returns after its backoff, or after the server's Retry-After if that is longer. A defect in one
    job's reconcile never stops the others; `report` records it where the job's owner sees it. After
    the loss of the lease (`loss`) no reconcile begins, and errors of the last ones are not treated
    as defects.
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
        """Work until the queue is closed or the lease is lost, and the running reconciles have
        ended.
        """
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
                # Possibly NotLeading among others: an exception group contains several errors.
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
