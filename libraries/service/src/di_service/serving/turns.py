"""Fair queueing of requests for a fixed number of threads."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

SLOW_SECONDS: Final = 0.05
"""Seconds for which a penalized source keeps its place after a response."""
_REMEMBERED: Final = 4096
"""Number of keys with recorded seconds above which the settled ones are dropped."""

K = TypeVar("K", bound=Hashable)


class Flow(NamedTuple):
    """The flow that a request belongs to."""

    source: str
    """Address of the client."""
    tenant: str = ""
    """Tenant of a source that serves many; empty: the source itself. The request names it, so
    tenants share what their source gets.
    """


@dataclass(slots=True)
class Turn:
    """A place that is in use."""

    flow: Flow
    since: float


class SecondsUsed(Generic[K]):
    """Start-time fair queueing: the key that has used the fewest seconds is next.

    A new key starts at the position of the last served key, so that waiting saves up no credit, and
    use while no other key waited costs nothing.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._finish: dict[K, float] = {}

    def start(self, key: K) -> float:
        """Return the position of a key's next request; the lowest is next."""
        return max(self._now, self._finish.get(key, 0.0))

    def begin(self, key: K) -> None:
        """Record that a request of a key starts."""
        self._now = self.start(key)

    def charge(self, key: K, seconds: float) -> None:
        """Record that a request of a key took `seconds`."""
        self._finish[key] = self.start(key) + seconds
        if len(self._finish) > _REMEMBERED:
            self._finish = {k: at for k, at in self._finish.items() if at > self._now}

    def forget(self) -> None:
        """Reset, because no request is waiting or running."""
        self._finish.clear()


class Turns:
    """Places for requests; the next goes to the source, and in it to the tenant, that has used the
    fewest seconds.

    In order of arrival a source with a hundred requests would delay all others, and by number of
    requests one with slow requests would. No source gets more than half of the places, and no
    tenant more than half of its source's, because a running request is not interrupted. A penalized
    source has one place at a time, with a pause after each request.
    """

    def __init__(
        self,
        places: int,
        *,
        slows: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with all places free.

        Args:
            places: number of concurrent requests.
            slows: whether a source is penalized.
            clock: returns seconds.
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
            TimeoutError: none was free in time.
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
                # The place and the timeout arrived together.
                self.give_back(turn.result())
            elif turn in queue:
                queue.remove(turn)
                self._drop_if_empty(flow)
            raise

    def give_back(self, turn: Turn) -> None:
        """Release the place for the next request."""
        flow = turn.flow
        seconds = self._clock() - turn.since
        self._sources.charge(flow.source, seconds)
        self._flows.charge(flow, seconds)
        self._free += 1
        if self._slows(flow.source):
            # The place counts as taken for a while although its thread is free for others.
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
