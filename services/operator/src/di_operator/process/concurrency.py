"""How many requests of one job, and of one namespace, are under way at once."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

CONCURRENCY: Final = 16
"""For as long as it takes: the API server divides its processors among all that it has under way,
and more of ours would only wait there."""
BURST: Final = 128
"""So many of a job's requests may hurry: a hundred replicas are there within about a second."""
GROWTH: Final = 2
"""How many more begin for each that has gone well, while there may be more."""
IN_COMPANY: Final = 4
"""While other jobs have something to write: at the API server whatever is under way waits for
whatever else is."""
OF_LARGE_IN_COMPANY: Final = 1
"""Of what comes after the first CONCURRENCY, likewise: a job of a thousand pods must not make a job
of four wait, and while such jobs come they have half of the API server."""
PAUSE_IN_COMPANY: Final = 1.0
"""Between two of those, by the seconds that the one before took, LINGER at most: what follows from
a pod that was made (statuses, addresses) keeps the API server busy once more."""
AMONG_TENANTS: Final = 8
"""Writes of all jobs of a namespace while another one has something to write. It keeps the API
server busy, and whoever has one job there does not wait behind as many as there are workers."""
LINGER: Final = 1.0
"""Seconds for which a job, or a namespace, is company after a write. Its next step follows from
what the watch brings of the last one, and is to find as much room."""

CONNECTIONS: Final = BURST + CONCURRENCY
"""Of the client: one job in a hurry leaves enough for the others."""

T = TypeVar("T")


class Writers:
    """Which jobs are writing, or did a moment ago."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """`monotonic` tells seconds."""
        self._monotonic = monotonic
        self._under_way: Counter[Hashable] = Counter()
        self._ended: OrderedDict[Hashable, float] = OrderedDict()

    @contextmanager
    def writing(self, job: Hashable) -> Iterator[None]:
        """One write of the job, from its beginning to its end."""
        self._under_way[job] += 1
        try:
            yield
        finally:
            self._under_way[job] -= 1
            if not self._under_way[job]:
                del self._under_way[job]
            self._ended[job] = self._monotonic()
            self._ended.move_to_end(job)
            self._forget_old()

    def has_company(self, job: Hashable) -> bool:
        """Tell whether another job is writing, or ended a write within LINGER."""
        self._forget_old()
        others = (len(found) - (job in found) for found in (self._under_way, self._ended))
        return any(others)

    def _forget_old(self) -> None:
        until = self._monotonic() - LINGER
        while self._ended and next(iter(self._ended.values())) <= until:
            self._ended.popitem(last=False)


class Tenants:
    """Which namespaces are writing, and whose turn it is where one has many writes."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """`monotonic` tells seconds."""
        self._writers = Writers(monotonic=monotonic)
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def writing(self, namespace: str) -> AsyncIterator[None]:
        """One write in a namespace; begins when AMONG_TENANTS allows it, first come first served.

        No namespace waits for another one.
        """
        await self._begin(namespace)
        try:
            with self._writers.writing(namespace):
                yield
        finally:
            self._end(namespace)

    async def _begin(self, namespace: str) -> None:
        if namespace not in self._waiting and self._has_room(namespace):
            self._under_way[namespace] += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._end(namespace)
            raise

    def _end(self, namespace: str) -> None:
        """Let those begin that may now: of what waits, something is always under way."""
        self._under_way[namespace] -= 1
        waiting = self._waiting.get(namespace, deque())
        while waiting and self._has_room(namespace):
            waiter = waiting.popleft()
            if not waiter.done():
                self._under_way[namespace] += 1
                waiter.set_result(None)
        if not waiting:
            self._waiting.pop(namespace, None)
        if not self._under_way[namespace]:
            del self._under_way[namespace]

    def _has_room(self, namespace: str) -> bool:
        under_way = self._under_way[namespace]
        return under_way < AMONG_TENANTS or not self._writers.has_company(namespace)


async def spread(
    items: Sequence[T],
    act: Callable[[T], Awaitable[bool]],
    *,
    in_company: Callable[[], bool] = lambda: False,
) -> None:
    """Call `act` for each item in order, several at a time, until one call returns False.

    Begins with CONCURRENCY at once. For each one that has gone well GROWTH more than that begin,
    until BURST have begun in all; from then on as many as have gone well, and no more than
    CONCURRENCY are under way. So a thousand pods under an exceeded quota cost a handful of
    refusals, and connections are opened as answers come: the handshakes of a hundred at once would
    hold the event loop for a tenth of a second.

    `in_company` is asked before each: while it says yes, IN_COMPANY are under way and no more, and
    once CONCURRENCY have begun OF_LARGE_IN_COMPANY, with pauses (PAUSE_IN_COMPANY).

    What is under way when one returns False is awaited, not cancelled: a cancelled create may
    have happened. `act` must not raise; if it does, the others are cancelled.
    """
    going, begun, under_way = True, 0, 0

    def begin(at_most: int) -> None:
        nonlocal begun, under_way
        for _ in range(min(at_most, _more(begun, under_way, in_company()), len(items) - begun)):
            group.create_task(one(items[begun]))
            begun += 1
            under_way += 1

    async def one(item: T) -> None:
        nonlocal going, under_way
        clock = asyncio.get_running_loop().time
        asked = clock()
        going = await act(item) and going
        if going and CONCURRENCY <= begun < len(items) and in_company():
            await asyncio.sleep(min(PAUSE_IN_COMPANY * (clock() - asked), LINGER))
        under_way -= 1
        if going:
            begin(1 + GROWTH)

    async with asyncio.TaskGroup() as group:
        begin(CONCURRENCY)


def _more(begun: int, under_way: int, in_company: bool) -> int:
    """How many more may begin, when so many have and so many of them are under way."""
    if in_company:
        return (IN_COMPANY if begun < CONCURRENCY else OF_LARGE_IN_COMPANY) - under_way
    return max(BURST - begun, CONCURRENCY - under_way)
