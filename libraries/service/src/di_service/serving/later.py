"""Long polling without a thread: responses that wait for news.

An application without news returns the response for a timeout, and puts a `Later` into the
environment of the request. The front releases the thread, and sends that response at the timeout,
or the body that arrives before.
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
"""Key in the environment."""

_News = asyncio.Future[bytes | None]
Wake = Callable[[bytes], None]
"""Receives the body; callable from any thread, and more than once: the first call counts."""


@dataclass(frozen=True, slots=True)
class Later:
    """The news that a request waits for."""

    seconds: float
    subscribe: Callable[[Wake], Callable[[], None]]
    """Registers a function for the news, which can be called at once; returns a function that
    cancels it. Neither may block.
    """


class Waits:
    """All waiting requests of one event loop."""

    def __init__(self) -> None:
        self._waiting: set[_News] = set()
        self._ended = False
        self._told: deque[tuple[_News, bytes]] = deque()
        self._settling = False

    async def until_news(self, later: Later, receive: ASGIReceiveCallable) -> bytes | None:
        """Return the body; None at the timeout, when the client disconnects, or when the front
        shuts down.
        """
        if self._ended:
            return None
        loop = asyncio.get_running_loop()
        news: _News = loop.create_future()

        def wake(body: bytes) -> None:
            self._told.append((news, body))
            if self._settling:
                # The loop is woken once for all requests with news at the same time.
                return
            self._settling = True
            # A closed loop has no waiting clients.
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
        # Reset first, so that news that arrives meanwhile schedules another call.
        self._settling = False
        while self._told:
            _settle(*self._told.popleft())

    def end(self) -> None:
        """End all waits, and refuse new ones."""
        self._ended = True
        for news in list(self._waiting):
            _settle(news, None)


async def _gone(receive: ASGIReceiveCallable) -> None:
    """Return once the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _settle(news: _News, body: bytes | None) -> None:
    if not news.done():
        news.set_result(body)
