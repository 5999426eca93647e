"""Connections that were accepted and have not begun to speak."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from di_api.serving.guests import Guest

SLOW_SECONDS: Final = 0.2
"""Between two connections of a source that is slowed down."""
_AT_ONCE: Final = 2
"""Begun before other events have their turn. A TLS handshake costs a millisecond or two, and all
that begin together go on together."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    begin: Callable[[], None]
    drop: Callable[[], None]
    deadline: float


class Arrivals:
    """Lets connections begin, a few in each turn of the event loop, of each source in its turn.

    First come, first served would let one that opens five hundred at once keep all others waiting
    for their handshakes.
    """

    def __init__(self, *, seconds: float, slows: Callable[[str], bool]) -> None:
        """Nobody waits.

        Args:
            seconds: that a connection waits for its turn before it is dropped.
            slows: whether a source is slowed down.
        """
        self._seconds = seconds
        self._slows = slows
        self._waiting: OrderedDict[str, dict[Guest, _Arrival]] = OrderedDict()
        # Of slow sources when their next one may begin; the earliest first.
        self._next: OrderedDict[str, float] = OrderedDict()
        self._turn: asyncio.Handle | None = None

    def add(self, guest: Guest, *, begin: Callable[[], None], drop: Callable[[], None]) -> None:
        """Wait for a turn.

        Args:
            guest: its place; `end` of it is one of this here until the turn has come.
            begin: called at its turn.
            drop: ends it before that; called when the place is lost or the time is up.
        """
        loop = asyncio.get_running_loop()
        guest.end = lambda: self._drop(guest)
        own = self._waiting.setdefault(guest.source, {})
        own[guest] = _Arrival(begin, drop, loop.time() + self._seconds)
        if len(own) == 1:
            # A source that has just come need not wait until the next slow one may go on.
            self._go_on(0.0)

    def close(self) -> None:
        """Let all begin that are not slowed down; no others."""
        if self._turn is not None:
            self._turn.cancel()
        for source, own in list(self._waiting.items()):
            slow = self._slows(source)
            for guest, arrival in list(own.items()):
                if slow:
                    self._drop(guest)
                else:
                    arrival.begin()
        self._waiting.clear()

    def _drop(self, guest: Guest) -> None:
        own = self._waiting.get(guest.source, {})
        arrival = own.pop(guest, None)
        if not own:
            self._waiting.pop(guest.source, None)
        if arrival is not None:
            guest.leave()
            arrival.drop()

    def _go_on(self, seconds: float) -> None:
        if self._turn is not None:
            self._turn.cancel()
        loop = asyncio.get_running_loop()
        self._turn = loop.call_later(seconds, self._take_turns)

    def _take_turns(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._next and next(iter(self._next.values())) <= now:
            self._next.popitem(last=False)
        begun = 0
        for source in list(self._waiting):
            own = self._waiting[source]
            while own and next(iter(own.values())).deadline <= now:
                self._drop(next(iter(own)))
            if not own or source in self._next:
                continue
            guest = next(iter(own))
            arrival = own.pop(guest)
            if own:
                self._waiting.move_to_end(source)
            else:
                del self._waiting[source]
            if self._slows(source):
                self._next[source] = now + SLOW_SECONDS
            arrival.begin()
            begun += 1
            if begun == _AT_ONCE:
                break
        self._turn = None
        if any(source not in self._next for source in self._waiting):
            self._go_on(0.0)
        elif self._waiting:
            self._go_on(max(0.0, next(iter(self._next.values())) - now))
