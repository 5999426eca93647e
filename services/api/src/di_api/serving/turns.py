"""Who is next where a fixed number are served at once."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final

SLOW_SECONDS: Final = 0.05
"""That a source which is slowed down keeps its place after an answer."""


class Turns:
    """Places that sources take in turn, and each source's requests in their order.

    First come, first served would let one that asks a hundred times keep all others waiting for
    its hundredth answer. A source that is slowed down has one place at a time, and the next one
    only after a pause.
    """

    def __init__(self, places: int, *, slows: Callable[[str], bool]) -> None:
        """All places are free.

        Args:
            places: how many are served at once.
            slows: whether a source is slowed down.
        """
        self._free = places
        self._slows = slows
        self._taken: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, source: str, seconds: float) -> None:
        """Wait for a place.

        Raises:
            TimeoutError: none came in time.
        """
        if self._free > 0 and source not in self._waiting and self._may(source):
            self._free -= 1
            self._taken[source] += 1
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
                self.give_back(source)
            elif turn in queue:
                queue.remove(turn)
                if not queue and self._waiting.get(source) is queue:
                    del self._waiting[source]
            raise

    def give_back(self, source: str) -> None:
        """The place of a source goes to the source whose turn it is."""
        self._free += 1
        if self._slows(source):
            # It counts as taken for a while, by nobody: others have the thread meanwhile.
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._forget, source)
            self._hand_out()
        else:
            self._forget(source)

    def _forget(self, source: str) -> None:
        self._taken[source] -= 1
        if not self._taken[source]:
            del self._taken[source]
        self._hand_out()

    def _hand_out(self) -> None:
        for source in list(self._waiting):
            if self._free == 0:
                return
            queue = self._waiting[source]
            while queue and queue[0].done():
                queue.popleft()
            if queue and self._may(source):
                self._free -= 1
                self._taken[source] += 1
                queue.popleft().set_result(None)
                self._waiting.move_to_end(source)
            if not queue:
                del self._waiting[source]

    def _may(self, source: str) -> bool:
        return not (self._taken[source] and self._slows(source))
