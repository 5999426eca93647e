"""Limits on the concurrent requests of one job, and of one namespace."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

CONCURRENCY: Final = 16
"""Concurrent requests of a job for any length of time. The API server divides its CPUs among all
requests, so more of ours would only wait there.
"""
BURST: Final = 128
"""Requests of a job that can begin faster: a hundred replicas are created within about a second."""
GROWTH: Final = 2
"""Requests that begin for each one that succeeded, up to the limit."""
IN_COMPANY: Final = 4
"""Concurrent requests of a job while other jobs write: at the API server all requests delay each
other.
"""
OF_LARGE_IN_COMPANY: Final = 1
"""The same limit after a job's first CONCURRENCY requests. A job of a thousand pods must not delay
a job of four, and the limit leaves half of the API server to such jobs.
"""
PAUSE_IN_COMPANY: Final = 1.0
"""Delay between two of those, as a multiple of the previous request's duration, LINGER at most: the
effects of a new pod (statuses, addresses) load the API server once more.
"""
AMONG_TENANTS: Final = 8
"""Concurrent writes of all jobs of a namespace while another namespace writes. The limit keeps the
API server busy, and a namespace with one job does not wait behind all workers of another.
"""
LINGER: Final = 1.0
"""Seconds after a write for which a job or namespace counts as writing. Its next step follows from
the watch events of the last one, and needs the same capacity.
"""

CONNECTIONS: Final = BURST + CONCURRENCY
"""Connections of the client: one job at full speed leaves enough for the others."""

T = TypeVar("T")


class Writers:
    """Tracks which jobs are writing, or were a moment ago."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """`monotonic` returns seconds."""
        self._monotonic = monotonic
        self._under_way: Counter[Hashable] = Counter()
        self._ended: OrderedDict[Hashable, float] = OrderedDict()

    @contextmanager
    def writing(self, job: Hashable, *, is_company: bool = True) -> Iterator[None]:
        """Mark one write of the job, from beginning to end, unless other jobs are to ignore it."""
        if not is_company:
            yield
            return
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
        """Return whether another job is writing, or ended a write within LINGER."""
        self._forget_old()
        others = (len(found) - (job in found) for found in (self._under_way, self._ended))
        return any(others)

    def _forget_old(self) -> None:
        until = self._monotonic() - LINGER
        while self._ended and next(iter(self._ended.values())) <= until:
            self._ended.popitem(last=False)


class Tenants:
    """Tracks which namespaces are writing, and queues the writes of a namespace at its limit."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """`monotonic` returns seconds."""
        self._writers = Writers(monotonic=monotonic)
        self._under_way: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def writing(self, namespace: str, *, is_company: bool = True) -> AsyncIterator[None]:
        """Mark one write in a namespace; begins when AMONG_TENANTS allows it, in order of arrival.

        No namespace waits for another one. `is_company` is whether the write limits those of other
        namespaces.
        """
        await self._begin(namespace)
        try:
            with self._writers.writing(namespace, is_company=is_company):
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
        """Start the writes that are now allowed; while some wait, at least one is under way."""
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

    Begins with CONCURRENCY calls. Each call that succeeds starts GROWTH more than that, until BURST
    have begun in total; after that each success starts one, and at most CONCURRENCY are under way.
    So a thousand pods beyond a quota cause a handful of refusals. Connections are opened as
    responses arrive, because a hundred TLS handshakes at once would block the event loop for a
    tenth of a second.

    `in_company` is called before each item. While it returns True, at most IN_COMPANY calls are
    under way, and after the first CONCURRENCY calls OF_LARGE_IN_COMPANY, with delays
    (PAUSE_IN_COMPANY).

    When a call returns False, the others are awaited and not cancelled: a cancelled create may have
    happened. `act` must not raise; if it does, the others are cancelled.
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
    """Return how many more calls can begin, given how many have begun and are under way."""
    if in_company:
        return (IN_COMPANY if begun < CONCURRENCY else OF_LARGE_IN_COMPANY) - under_way
    return max(BURST - begun, CONCURRENCY - under_way)
