"""Bodies that are read as they come: events of a watch, ends of logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

from di_api.kube import wire
from di_api.kube.wire import Object, Target

# Events of a watch that are parsed, and taken in, before others get their turn; some milliseconds.
_EVENTS_AT_ONCE = 50


def abort(response: aiohttp.ClientResponse) -> None:
    """Drop a stream that was left before its end. A polite TLS goodbye would wait for a peer that
    may be gone, and keep the socket long after the client is closed."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def read_bounded(response: aiohttp.ClientResponse, target: Target) -> bytes:
    """The whole body. Raises Unavailable (BadBody) if it is too large."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > wire.MAX_BODY:
            raise target.broken("BadBody", f"the answer is larger than {wire.MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def read_tail(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The last bytes of a body of any length."""
    kept = bytearray()
    async for chunk in response.content.iter_any():
        kept += chunk
        if len(kept) > 2 * most:
            del kept[: len(kept) - most]
    return bytes(kept[-most:]) if most else b""


async def events(
    response: aiohttp.ClientResponse, target: Target
) -> AsyncGenerator[tuple[str, Object], None]:
    """Split the stream into lines and parse them; a half line at the end is a cut."""
    rest = b""
    async for chunk in response.content.iter_any():
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
