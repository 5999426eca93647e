"""Accepted connections that have not started yet."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from di_service.serving.connections import Connection
from di_service.token_buckets import TokenBuckets

SLOW_SECONDS: Final = 0.2
"""Seconds between two connections of a penalized source."""
_AT_ONCE: Final = 2
"""Connections started before other events are handled. A TLS handshake costs a millisecond or two,
and all that start together continue together.
"""


@dataclass(frozen=True, slots=True)
class _Arrival:
    begin: Callable[[], None]
    drop: Callable[[], None]
    gone: Callable[[], bool]
    deadline: float


def _nobody(_source: str) -> bool:
    return False


class Arrivals:
    """Starts connections, a few in each iteration of the event loop, with sources taking turns.

    In order of arrival a client with five hundred connections would delay all others' handshakes,
    and one that opens a connection after the other would keep the loop busy. So each new connection
    takes a token of its source's rate limit.
    """

    def __init__(
        self,
        *,
        seconds: float,
        pace: TokenBuckets[str],
        slows: Callable[[str], bool] = _nobody,
    ) -> None:
        """Prepare an empty queue.

        Args:
            seconds: how long a connection waits for its turn before it is dropped.
            pace: the rate limit of each source; a source without tokens waits for the next one.
            slows: whether a source is penalized.
        """
        self._seconds = seconds
        self._slows = slows
        self._pace = pace
        self._waiting: OrderedDict[str, dict[Connection, _Arrival]] = OrderedDict()
        # For penalized sources the time at which their next connection can start.
        self._next: dict[str, float] = {}
        self._turn: asyncio.Handle | None = None
        # Time of the timer, because uvloop's handles do not have it.
        self._turn_at = 0.0

    def add(
        self,
        connection: Connection,
        *,
        begin: Callable[[], None],
        drop: Callable[[], None],
        gone: Callable[[], bool],
    ) -> None:
        """Add a connection to the queue.

        Args:
            connection: its `end` is set by this class until its turn.
            begin: called at its turn.
            drop: closes it before that; called when it is evicted or its time is over.
            gone: whether its client has disconnected; then it never starts. A client with many
                concurrent requests rightly closes some connections early.
        """
        loop = asyncio.get_running_loop()
        connection.end = lambda: self._drop(connection)
        own = self._waiting.setdefault(connection.source, {})
        own[connection] = _Arrival(begin, drop, gone, loop.time() + self._seconds)
        self._go_on(self._ready(connection.source, loop.time()))

    def close(self) -> None:
        """Start all connections of sources that are not penalized; no others."""
        if self._turn is not None:
            self._turn.cancel()
        for source, own in list(self._waiting.items()):
            slow = self._slows(source)
            for connection, arrival in list(own.items()):
                if slow:
                    self._drop(connection)
                else:
                    arrival.begin()
        self._waiting.clear()

    def _drop(self, connection: Connection) -> None:
        own = self._waiting.get(connection.source, {})
        arrival = own.pop(connection, None)
        if not own:
            self._waiting.pop(connection.source, None)
        if arrival is not None:
            connection.release()
            arrival.drop()

    def _go_on(self, at: float) -> None:
        if self._turn is not None:
            if self._turn_at <= at:
                # The timer is not moved, or a client that connects all the time would postpone it
                # forever.
                return
            self._turn.cancel()
        self._turn = asyncio.get_running_loop().call_at(at, self._take_turns)
        self._turn_at = at

    def _take_turns(self) -> None:
        self._turn = None
        now = asyncio.get_running_loop().time()
        self._next = {source: at for source, at in self._next.items() if at > now}
        begun = 0
        for source in list(self._waiting):
            if self._ready(source, now) <= now and self._begin_one(source, now):
                begun += 1
            if begun == _AT_ONCE:
                break
        if self._waiting:
            self._go_on(min(self._ready(source, now) for source in self._waiting))

    def _ready(self, source: str, now: float) -> float:
        """Return when the next connection of a source can start."""
        return max(self._next.get(source, now), now + self._pace.wait(source))

    def _begin_one(self, source: str, now: float) -> bool:
        own = self._waiting[source]
        while own:
            connection, arrival = next(iter(own.items()))
            if arrival.deadline > now and not arrival.gone():
                break
            self._drop(connection)
        else:
            return False
        del own[connection]
        if own:
            self._waiting.move_to_end(source)
        else:
            del self._waiting[source]
        self._pace.take(source)
        if self._slows(source):
            self._next[source] = now + SLOW_SECONDS
        arrival.begin()
        return True
