"""Who is next where a fixed number are served at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

SLOW_SECONDS: Final = 0.05
"""That a source which is slowed down keeps its place after an answer."""
_REMEMBERED: Final = 4096
"""Keys of which the seconds are kept before those that owe nothing are forgotten."""

K = TypeVar("K", bound=Hashable)


class Flow(NamedTuple):
    """Whose request it is."""

    source: str
    """The address that it comes from."""
    tenant: str = ""
    """For whom, of many that one source asks for; empty: the source itself. Told by the request, so
    it shares what its source has."""


@dataclass(slots=True)
class Turn:
    """A place that is taken."""

    flow: Flow
    since: float


class SecondsUsed(Generic[K]):
    """Start-time fair queueing: who has used the fewest seconds is next.

    A key begins where the one that was served last began, so that none saves up by waiting and none
    pays for what it used while no other waited.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._finish: dict[K, float] = {}

    def start(self, key: K) -> float:
        """Where in the order the next request of a key is; the lowest is next."""
        return max(self._now, self._finish.get(key, 0.0))

    def begin(self, key: K) -> None:
        """One of a key is being served."""
        self._now = self.start(key)

    def charge(self, key: K, seconds: float) -> None:
        """One of a key was served, and took seconds."""
        self._finish[key] = self.start(key) + seconds
        if len(self._finish) > _REMEMBERED:
            self._finish = {k: at for k, at in self._finish.items() if at > self._now}

    def forget(self) -> None:
        """No request is left, so none has to be fair to another."""
        self._finish.clear()


class Turns:
    """Places that go to the source, and within it to the tenant, that has used the fewest seconds.

    First come, first served would let one that asks a hundred times keep all others waiting for
    its hundredth answer, and counting requests one whose requests take a hundred times as long.
    No source has more than half of the places, and no tenant more than half of its source's: what
    takes long is not interrupted. A source that is slowed down has one place at a time, and the
    next one only after a pause.
    """

    def __init__(
        self,
        places: int,
        *,
        slows: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """All places are free.

        Args:
            places: how many are served at once.
            slows: whether a source is slowed down.
            clock: tells seconds.
        """
        self._free = places
        self._most_of_source = _half(places)
        self._most_of_tenant = _half(self._most_of_source)
        self._slows = slows
        self._clock = clock
        self._taken: Counter[Flow] = Counter()
        self._taken_by_source: Counter[str] = Counter()
        self._sources = SecondsUsed[str]()
        self._flows = SecondsUsed[Flow]()
        # By source, in the order in which they were served.
        self._waiting: dict[str, dict[Flow, deque[asyncio.Future[Turn]]]] = {}

    async def take(self, flow: Flow, seconds: float) -> Turn:
        """Wait for a place.

        Raises:
            TimeoutError: none came in time.
        """
        if self._free > 0 and flow not in self._waiting.get(flow.source, {}) and self._may(flow):
            return self._begin(flow)
        turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(flow.source, {}).setdefault(flow, deque())
        queue.append(turn)
        try:
            async with asyncio.timeout(seconds):
                return await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # The place came together with the end of the patience.
                self.give_back(turn.result())
            elif turn in queue:
                queue.remove(turn)
                self._drop_if_empty(flow)
            raise

    def give_back(self, turn: Turn) -> None:
        """The place goes to the one whose turn it is."""
        flow = turn.flow
        seconds = self._clock() - turn.since
        self._sources.charge(flow.source, seconds)
        self._flows.charge(flow, seconds)
        self._free += 1
        if self._slows(flow.source):
            # It counts as taken for a while, by nobody: others have the thread meanwhile.
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._forget, flow)
            self._hand_out()
        else:
            self._forget(flow)

    def _begin(self, flow: Flow) -> Turn:
        self._free -= 1
        self._taken[flow] += 1
        self._taken_by_source[flow.source] += 1
        self._sources.begin(flow.source)
        self._flows.begin(flow)
        return Turn(flow, self._clock())

    def _forget(self, flow: Flow) -> None:
        _less(self._taken, flow)
        _less(self._taken_by_source, flow.source)
        self._hand_out()
        if not self._taken and not self._waiting:
            self._sources.forget()
            self._flows.forget()

    def _hand_out(self) -> None:
        while self._free > 0 and (flow := self._next()) is not None:
            own = self._waiting.pop(flow.source)
            queue = own.pop(flow)
            turn = queue.popleft()
            # Behind those that have used as little.
            if queue:
                own[flow] = queue
            if own:
                self._waiting[flow.source] = own
            if not turn.done():
                turn.set_result(self._begin(flow))

    def _next(self) -> Flow | None:
        able = {
            source: [flow for flow in flows if self._may(flow)]
            for source, flows in self._waiting.items()
        }
        source = _first((each for each, flows in able.items() if flows), self._sources)
        return None if source is None else _first(able[source], self._flows)

    def _may(self, flow: Flow) -> bool:
        taken = self._taken_by_source[flow.source]
        if taken >= self._most_of_source or (taken and self._slows(flow.source)):
            return False
        return not flow.tenant or self._taken[flow] < self._most_of_tenant

    def _drop_if_empty(self, flow: Flow) -> None:
        own = self._waiting.get(flow.source, {})
        if flow in own and not own[flow]:
            del own[flow]
            if not own:
                del self._waiting[flow.source]


def _half(places: int) -> int:
    return (places + 1) // 2


def _first(keys: Iterable[K], used: SecondsUsed[K]) -> K | None:
    return min(keys, key=used.start, default=None)


def _less(taken: Counter[K], key: K) -> None:
    taken[key] -= 1
    if not taken[key]:
        del taken[key]
