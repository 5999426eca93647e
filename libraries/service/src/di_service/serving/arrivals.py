"""Connections that were accepted and have not begun to speak."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from di_service.serving.connections import Connection
from di_service.token_buckets import TokenBuckets

SLOW_SECONDS: Final = 0.2
"""Between two connections of a source that is slowed down."""
_AT_ONCE: Final = 2
"""Begun before other events have their turn. A TLS handshake costs a millisecond or two, and all
that begin together go on together."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    begin: Callable[[], None]
    drop: Callable[[], None]
    gone: Callable[[], bool]
    deadline: float


def _nobody(_source: str) -> bool:
    return False


class Arrivals:
    """Lets connections begin, a few in each turn of the event loop, of each source in its turn.

    First come, first served would let one that opens five hundred at once keep all others waiting
    for their handshakes; and one that opens another as soon as the last one ends would keep the
    loop at work for it. So each new connection of a source costs a token of its pace.
    """

    def __init__(
        self,
        *,
        seconds: float,
        pace: TokenBuckets[str],
        slows: Callable[[str], bool] = _nobody,
    ) -> None:
        """Nobody waits.

        Args:
            seconds: that a connection waits for its turn before it is dropped.
            pace: of each source; who has no token left waits for the next one.
            slows: whether a source is slowed down.
        """
        self._seconds = seconds
        self._slows = slows
        self._pace = pace
        self._waiting: OrderedDict[str, dict[Connection, _Arrival]] = OrderedDict()
        # Of sources that are slowed down when their next one may begin.
        self._next: dict[str, float] = {}
        self._turn: asyncio.Handle | None = None
        # When it is, for uvloop's handles do not tell.
        self._turn_at = 0.0

    def add(
        self,
        connection: Connection,
        *,
        begin: Callable[[], None],
        drop: Callable[[], None],
        gone: Callable[[], bool],
    ) -> None:
        """Wait for a turn.

        Args:
            connection: its `end` is one of this here until the turn has come.
            begin: called at its turn.
            drop: ends it before that; called when its place is lost or the time is up.
            gone: whether its client has hung up; then it never has its turn. A client that has many
                under way at once lets some go, and that is no fault.
        """
        loop = asyncio.get_running_loop()
        connection.end = lambda: self._drop(connection)
        own = self._waiting.setdefault(connection.source, {})
        own[connection] = _Arrival(begin, drop, gone, loop.time() + self._seconds)
        self._go_on(self._ready(connection.source, loop.time()))

    def close(self) -> None:
        """Let all begin that are not slowed down; no others."""
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
                # Not planned anew, or who comes all the time would put it off for ever.
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
        """When the next one of a source may begin."""
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
