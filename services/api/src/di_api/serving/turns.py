"""Who is next where a fixed number are served at once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque


class Turns:
    """Places that sources take in turn, and each source's requests in their order.

    First come, first served would let one that asks a hundred times keep all others waiting for
    its hundredth answer.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, source: str, seconds: float) -> None:
        """Wait for a place.

        Raises:
            TimeoutError: none came in time.
        """
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(source, deque())
        queue.append(turn)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # The place came together with the end of the patience.
                self.give_back()
            elif turn in queue:
                queue.remove(turn)
                if not queue and self._waiting.get(source) is queue:
                    del self._waiting[source]
            raise

    def give_back(self) -> None:
        """The place goes to the source whose turn it is."""
        while self._waiting:
            source, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[source] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
