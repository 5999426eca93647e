"""Comparisons of caches with the API server: the first under the lease, and those of each poll."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import structlog

from di_kube.errors import ApiError
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


async def compare(caches: Iterable[Compared]) -> Sequence[Compared]:
    """Compare caches at the same time; return those of which it failed."""
    caches = [*caches]
    compared = await asyncio.gather(*map(_is_compared, caches))
    return [cache for cache, is_done in zip(caches, compared, strict=True) if not is_done]


async def compare_all(
    caches: Iterable[Compared], clock: Clock, stopping: asyncio.Future[Any]
) -> None:
    """Compare each of some caches until it has succeeded once, or until `stopping` is done."""
    left, pause = [*caches], FIRST_PAUSE
    while (left := [*await compare(left)]) and not stopping.done():
        sleep = asyncio.ensure_future(clock.sleep(pause))
        try:
            await asyncio.wait((sleep, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
        pause = min(2 * pause, LONGEST_PAUSE)


async def _is_compared(cache: Compared) -> bool:
    try:
        return await cache.relist()
    except ApiError as error:
        log.warning("comparison failed", error=str(error))
        return False
