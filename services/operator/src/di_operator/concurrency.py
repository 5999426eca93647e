"""How many requests of one job are under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

CONCURRENCY: Final = 16
"""For as long as it takes: a job of a thousand pods must not make a job of four wait until it is
done, and the API server divides its processors among all that it has under way."""
BURST: Final = 128
"""So many of a job's requests may hurry: a hundred replicas are there within about a second, and
whoever waits for the API server meanwhile waits no longer than that."""
GROWTH: Final = 2
"""How many more begin for each that has gone well, while a job may hurry."""

CONNECTIONS: Final = BURST + CONCURRENCY
"""Of the client: one job in a hurry leaves enough for the others."""

T = TypeVar("T")


async def spread(items: Sequence[T], act: Callable[[T], Awaitable[bool]]) -> None:
    """Call `act` for each item in order, several at a time, until one call returns False.

    Begins with CONCURRENCY at once. For each one that has gone well GROWTH more begin, each of
    these for one item, until BURST have begun in all. So a thousand pods under an exceeded quota
    cost a handful of refusals, and connections are opened as answers come: the handshakes of a
    hundred at once would hold the event loop for a tenth of a second.

    What is under way when one returns False is awaited, not cancelled: a cancelled create may
    have happened. `act` must not raise; if it does, the others are cancelled.
    """
    todo = iter(items)
    going, begun, burst = True, min(CONCURRENCY, len(items)), min(BURST, len(items))

    async def lane(*, lasting: bool) -> None:
        nonlocal going, begun
        for item in todo:
            if not going:
                break
            if not await act(item):
                going = False
            else:
                for _ in range(min(GROWTH, burst - begun)):
                    begun += 1
                    group.create_task(lane(lasting=False))
            if not lasting:
                break

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CONCURRENCY, len(items))):
            group.create_task(lane(lasting=True))
