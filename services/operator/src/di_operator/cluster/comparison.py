"""Comparisons of caches with the API server: the first under the lease, and those of each poll."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol

import structlog

from di_kube.errors import ApiError
from di_operator.cluster.informer_state import InformerState
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 8.0
"""Seconds until what could not be compared is compared again; doubled each time."""


class Compared(Protocol):
    """A cache, or several."""

    async def relist(self) -> bool:
        """Compare with the API server and repair what watches lost; return False if that was not
        possible now. Raises ApiError if a request fails.
        """
        ...


class Comparisons:
    """Compares what a process of the operator knows with the API server."""

    def __init__(
        self,
        *,
        informers: InformerState,
        caches: Collection[Compared],
        kueue: Compared,
        polled: Collection[Compared],
        clock: Clock,
    ) -> None:
        """`caches` are those that every decision depends on, `polled` those of duties, which may
        come later.
        """
        self._informers = informers
        self._caches = caches
        self._kueue = kueue
        self._polled = polled
        self._clock = clock

    async def begin(
        self, decide: Callable[[], Awaitable[None]], stopping: asyncio.Future[Any]
    ) -> None:
        """Read everything again under our own lease, then start to `decide`, and return after it.

        A standby's watches can lag, and the first decisions depend on the last writes of the
        previous leader. Jobs without a queue do not wait for what is known of Kueue. Once
        `stopping` is done, nothing is waited for.
        """
        hidden = self._informers.hidden
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._begin_with_kueue(stopping), name="read Kueue")
            await self._compare_all(self._caches, stopping)
            self._informers.reveal(hidden)
            self._informers.current.set()
            self._informers.wake_all()
            await decide()

    async def poll(self) -> None:
        """Compare everything once, because watches can lose events, and wake the jobs."""
        hidden = self._informers.hidden
        if not await _compare((*self._caches, self._kueue)):
            self._informers.reveal(hidden)
        # The kind of a duty may not be served any more, which concerns no job.
        await _compare(self._polled)
        self._informers.resync(self._clock.now())

    async def _begin_with_kueue(self, stopping: asyncio.Future[Any]) -> None:
        await self._compare_all([self._kueue], stopping)
        if self._informers.current.is_set():
            self._informers.wake_all()

    async def _compare_all(
        self, caches: Collection[Compared], stopping: asyncio.Future[Any]
    ) -> None:
        """Compare each of some caches until it has succeeded once, or until `stopping` is done."""
        pause = FIRST_PAUSE
        while (caches := await _compare(caches)) and not stopping.done():
            sleep = asyncio.ensure_future(self._clock.sleep(pause))
            try:
                await asyncio.wait((sleep, stopping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
            pause = min(2 * pause, LONGEST_PAUSE)


async def _compare(caches: Collection[Compared]) -> list[Compared]:
    """Compare caches at the same time; return those of which it failed."""
    caches = [*caches]  # duties that start meanwhile add theirs
    compared = await asyncio.gather(*map(_is_compared, caches))
    return [cache for cache, is_done in zip(caches, compared, strict=True) if not is_done]


async def _is_compared(cache: Compared) -> bool:
    try:
        return await cache.relist()
    except ApiError as error:
        log.warning("comparison failed", error=str(error))
        return False
