"""Streamed responses: watch events and logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from di_kube import wire
from di_kube.http import Stream
from di_kube.wire import Object, Target

# Watch events that are parsed and processed before other tasks run; some milliseconds.
_EVENTS_AT_ONCE = 50


async def read_bounded(stream: Stream, target: Target, silence: float) -> bytes:
    """Return the whole body. Raises Unavailable (BadBody) if it is too large."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in stream.parts(silence=silence):
        size += len(chunk)
        if size > wire.MAX_BODY:
            raise target.broken("BadBody", f"the answer is larger than {wire.MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


class Tail:
    """Keeps the last bytes of a stream.

    Args:
        most: number of bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()

    def take(self, chunk: bytes) -> None:
        """Add the next part."""
        self._kept += chunk
        if len(self._kept) > 2 * self._most:
            del self._kept[: len(self._kept) - self._most]

    def read(self) -> bytes:
        """Return the last bytes of what has arrived so far."""
        return bytes(self._kept[-self._most :]) if self._most else b""


async def events(
    stream: Stream, target: Target, silence: float
) -> AsyncGenerator[tuple[str, Object], None]:
    """Split the stream into lines and parse them; an incomplete last line is a cut stream."""
    rest = b""
    async for chunk in stream.parts(silence=silence):
        *lines, rest = (rest + chunk).split(b"\n")
        for count, line in enumerate(lines, 1):
            if line:
                yield wire.decode_event(line, target)
            if count % _EVENTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        if len(rest) > wire.MAX_LINE:
            raise target.broken("WatchCut", f"an event is larger than {wire.MAX_LINE} bytes")
    if rest:
        raise target.broken("WatchCut", "the stream ends inside an event")
