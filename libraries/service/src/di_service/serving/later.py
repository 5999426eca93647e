"""Answers that wait for news without a thread.

An application that has nothing new to say answers as it would when the time is up, and leaves a
`Later` in the environment of the request. The front gives the thread back, and sends that answer
when the time is up, or the body that comes before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable

LATER: Final = "di.later"
"""Key of the environment."""

_News = asyncio.Future[bytes | None]
Wake = Callable[[bytes], None]
"""Takes the body; may be called from any thread, and more than once: the first call counts."""


@dataclass(frozen=True, slots=True)
class Later:
    """News that a request waits for."""

    seconds: float
    subscribe: Callable[[Wake], Callable[[], None]]
    """Has the function called with the body once there is news, perhaps at once; returns how to end
    that. Neither may block."""


class Waits:
    """All that wait in one event loop."""

    def __init__(self) -> None:
        self._waiting: set[_News] = set()
        self._ended = False
        self._told: deque[tuple[_News, bytes]] = deque()
        self._settling = False

    async def until_news(self, later: Later, receive: ASGIReceiveCallable) -> bytes | None:
        """The body; None when the time is up, the client has gone or the front ends."""
        if self._ended:
            return None
        loop = asyncio.get_running_loop()
        news: _News = loop.create_future()

        def wake(body: bytes) -> None:
            self._told.append((news, body))
            if self._settling:
                # The loop is called once for all that are told at a time.
                return
            self._settling = True
            # One that is closed has nobody to tell any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle_told)

        self._waiting.add(news)
        gone = loop.create_task(_gone(receive))
        gone.add_done_callback(lambda _: _settle(news, None))
        up = loop.call_later(later.seconds, _settle, news, None)
        unsubscribe = later.subscribe(wake)
        try:
            return await news
        finally:
            unsubscribe()
            up.cancel()
            gone.cancel()
            self._waiting.discard(news)

    def _settle_told(self) -> None:
        # First, so that what comes meanwhile calls anew.
        self._settling = False
        while self._told:
            _settle(*self._told.popleft())

    def end(self) -> None:
        """Nobody waits any more, and nobody will."""
        self._ended = True
        for news in list(self._waiting):
            _settle(news, None)


async def _gone(receive: ASGIReceiveCallable) -> None:
    """Return once the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _settle(news: _News, body: bytes | None) -> None:
    if not news.done():
        news.set_result(body)
