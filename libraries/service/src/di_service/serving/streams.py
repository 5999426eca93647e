"""Endless responses, such as server-sent events, that use no thread while nothing happens.

An application puts a `Stream` into the environment of the request and responds as usual. The front
sends that response, continues with the stream's data, and closes the stream in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable

STREAM: Final = "di.stream"
"""Key in the environment."""


class Stream(Protocol):
    """The data that continues a response. Thread-safe."""

    @property
    def beat_seconds(self) -> float:
        """Return the seconds after which `more` is called without news."""
        ...

    @property
    def rest_seconds(self) -> float:
        """Return the minimum number of seconds between two calls of `more`."""
        ...

    def on_news(self, wake: Callable[[], None]) -> None:
        """Register `wake`, which is called from any thread for news; at once if there is some."""
        ...

    def more(self, *, is_news: bool) -> bytes | None:
        """Return the next piece, empty if there is none; None ends the response.

        Called in a thread that other streams wait for: it can call the API server, and waits for
        nothing else.
        """
        ...

    def close(self) -> None:
        """Release the resources of the stream; called once or more."""
        ...


class Streams:
    """All streams of one event loop."""

    def __init__(self, executor: Executor) -> None:
        """Run calls of `Stream.more` in `executor`."""
        self._executor = executor
        self._wakes: set[asyncio.Event] = set()
        self._ended = False

    async def pieces(self, stream: Stream, receive: ASGIReceiveCallable) -> AsyncGenerator[bytes]:
        """Yield the data of a stream, until it ends, the client disconnects, or the front shuts
        down.
        """
        loop = asyncio.get_running_loop()
        news, gone = asyncio.Event(), asyncio.Event()

        def leave(_: object) -> None:
            gone.set()
            news.set()

        def wake() -> None:
            # A closed loop has no clients.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(news.set)

        watching = loop.create_task(_gone(receive))
        watching.add_done_callback(leave)
        self._wakes.add(news)
        stream.on_news(wake)
        try:
            while not (gone.is_set() or self._ended):
                is_news = await _happens(news, stream.beat_seconds)
                news.clear()
                if gone.is_set() or self._ended:
                    return
                piece = await loop.run_in_executor(
                    self._executor, partial(stream.more, is_news=is_news)
                )
                if piece is None:
                    return
                if piece:
                    yield piece
                await _happens(gone, stream.rest_seconds)
        finally:
            self._wakes.discard(news)
            watching.cancel()

    def end(self) -> None:
        """End all streams, also later ones."""
        self._ended = True
        for news in self._wakes:
            news.set()


def in_a_thread(stream: Stream) -> Iterator[bytes]:
    """Yield the data of a stream, for a server with a thread per response."""
    news = Event()
    stream.on_news(news.set)
    while True:
        is_news = news.wait(stream.beat_seconds)
        news.clear()
        piece = stream.more(is_news=is_news)
        if piece is None:
            return
        yield piece
        Event().wait(stream.rest_seconds)


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _gone(receive: ASGIReceiveCallable) -> None:
    """Return once the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
