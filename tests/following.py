"""A watch cache that follows its resource for as long as a test needs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from di_kube.cache import WatchCache


@asynccontextmanager
async def following(cache: WatchCache) -> AsyncIterator[None]:
    """Run a cache while the block does, which begins once it has listed everything."""
    running = asyncio.create_task(cache.run())
    try:
        await cache.synced.wait()
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
