"""Requests at a pace that answers do not set, and what became of them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tools.benchmarks.samples import spread

_SHOWN = 20


@dataclass(slots=True)
class Tally:
    """What became of the requests of one kind."""

    seconds: list[float] = field(default_factory=list)
    """Of each that was answered as it should be, a retry included."""
    retried: Counter[str] = field(default_factory=Counter)
    """Those that were sent once more because of a kill, by what was told."""
    waited: Counter[str] = field(default_factory=Counter)
    """Times that a client was told to come again later, the API server being busy."""
    failed: list[str] = field(default_factory=list)
    """Those that were not."""
    elapsed: float = 0.0

    def report(self) -> dict[str, Any]:
        """For the JSON of a run."""
        return {
            "answered": len(self.seconds),
            "a_second": round(len(self.seconds) / max(self.elapsed, 1e-9), 1),
            "milliseconds": spread(self.seconds) if self.seconds else None,
            "retried_after_a_kill": sum(self.retried.values()),
            "told_after_a_kill": dict(self.retried),
            "told_to_come_later": dict(self.waited),
            "failed": len(self.failed),
            "first_failures": self.failed[:_SHOWN],
        }


async def paced(
    tally: Tally,
    one: Callable[[int, int], Awaitable[None]],
    *,
    rate: float,
    count: int,
    workers: int,
    goes_on: Callable[[], bool],
) -> None:
    """Make `count` requests, `rate` a second, each at its time or as soon as a worker is free.

    Args:
        tally: gets the time that it took.
        one: makes a request; told the worker's number and the request's.
        rate: a second.
        count: of requests.
        workers: at most so many at once.
        goes_on: asked before each request; no more are made once it says no.
    """
    began = time.monotonic()
    numbers = iter(range(count))

    async def work(worker: int) -> None:
        for number in numbers:
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            if not goes_on():
                return
            await one(worker, number)

    async with asyncio.TaskGroup() as group:
        for worker in range(workers):
            group.create_task(work(worker))
    tally.elapsed = time.monotonic() - began
