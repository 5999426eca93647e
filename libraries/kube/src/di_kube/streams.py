"""Bodies that are read as they come: events of a watch, logs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager

import aiohttp
from yarl import URL

from di_kube import wire
from di_kube.proxy import Proxy
from di_kube.sockets import Sockets
from di_kube.wire import Object, Target

# Events of a watch that are parsed, and taken in, before others get their turn; some milliseconds.
_EVENTS_AT_ONCE = 50


class Streams:
    """GET requests whose answers are read as they come, to the server of a base URL."""

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None,
        tls_name: str | None,
        proxy: Proxy | None,
        sockets: Sockets,
    ) -> None:
        self._server = server
        self._tls_name = tls_name
        self._proxy = proxy
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                # Each watch holds one for minutes.
                limit=0,
                ssl=tls or True,
                socket_factory=sockets.make,
            ),
            # Proxies come with the configuration, for who is outside the cluster's own network.
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 18,
        )

    async def close(self) -> None:
        """Hang up all of them."""
        await self._session.close()

    def get(
        self, path: str, headers: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Send a request; `path` is encoded already."""
        return self._session.get(
            # Letting yarl encode again would turn %2F in a name into a separator.
            URL(self._server + path, encoded=True),
            # A stream that begins with all objects would be compressed, and so flushed, and
            # unpacked, event by event.
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=limits,
            # The API server never redirects; whoever does would get our token.
            allow_redirects=False,
            server_hostname=self._tls_name,
            proxy=self._proxy.url if self._proxy is not None else None,
            proxy_headers=self._proxy.headers if self._proxy is not None else None,
        )


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


class Tail:
    """The last bytes of what it is handed, whatever there was before.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()

    def take(self, chunk: bytes) -> None:
        """Take what comes next."""
        self._kept += chunk
        if len(self._kept) > 2 * self._most:
            del self._kept[: len(self._kept) - self._most]

    def read(self) -> bytes:
        """The last bytes so far."""
        return bytes(self._kept[-self._most :]) if self._most else b""


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
