"""A fair queue of work, in which namespaces take turns."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A fair queue: namespaces take turns, and in each the oldest work is first.

    One namespace gets at most three quarters of the workers at a time, so that its slow work leaves
    some for the others.

    Args:
        workers: number of concurrent workers.
        most: maximum of waiting work; None: the caller limits it.
    """

    def __init__(self, *, workers: int, most: int | None = None) -> None:
        self._share = max(1, workers * 3 // 4)
        self._most = most
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._busy: Counter[str] = Counter()
        self._count = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return self._count

    def put(self, namespace: str, work: T) -> tuple[T, ...]:
        """Add work; return the work that is dropped for it, the newest of the longest queue."""
        self._waiting.setdefault(namespace, deque()).append(work)
        self._count += 1
        self._changed.set()
        if self._most is None or self._count <= self._most:
            return ()
        longest = max(self._waiting, key=lambda each: len(self._waiting[each]))
        return (self._pop(longest, newest=True),)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[T]:
        """Wait for the next work; its worker counts for the namespace until the body ends."""
        while (namespace := self._next()) is None:
            self._changed.clear()
            await self._changed.wait()
        work = self._pop(namespace)
        if namespace in self._waiting:
            self._waiting.move_to_end(namespace)
        self._busy[namespace] += 1
        try:
            yield work
        finally:
            self._busy[namespace] -= 1
            if not self._busy[namespace]:
                del self._busy[namespace]
            self._changed.set()

    def _next(self) -> str | None:
        return next((each for each in self._waiting if self._busy[each] < self._share), None)

    def _pop(self, namespace: str, *, newest: bool = False) -> T:
        queue = self._waiting[namespace]
        work = queue.pop() if newest else queue.popleft()
        if not queue:
            del self._waiting[namespace]
        self._count -= 1
        return work
