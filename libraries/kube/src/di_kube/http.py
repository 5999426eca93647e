"""HTTP/1.1 connections of one client, and the pool for short requests.

The operator makes ten requests for a job, and with a general client each of them costs more than
all decisions about the job. This one supports one server, and no redirects, cookies or compression.
Responses are read whole, or as a stream (watches, logs). llhttp (httptools) parses them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection
from httptools import HttpParserError, HttpResponseParser
from typing_extensions import override

from di_kube.proxy import Proxy
from di_kube.sockets import Sockets

IDLE_SECONDS: Final = 60.0
"""Idle seconds after which a connection is not used again: kube-apiserver closes it after 90."""
OPENED_AT_ONCE: Final = 2
"""Maximum number of concurrent TLS handshakes. One takes a millisecond of CPU on either side, ten
times a request. A request that waits for one takes a connection that is released meanwhile.
"""
PATIENCE: Final = 0.25
"""Seconds that a request waits for other handshakes before it begins its own."""
_END: Final = b"\r\n\r\n"
_MOST_HEAD: Final = 16 * 1024
"""Maximum bytes of a proxy's response that are read."""
_MOST_AHEAD: Final = 1 << 18
"""Maximum bytes of a stream that wait to be consumed; above it reading stops."""
_EYEBALLS_DELAY: Final = 0.25
"""Seconds until a second address is tried as well (RFC 8305)."""


class Broken(Exception):
    """The response is missing or incomplete; the message has the reason."""


class NoConnection(TimeoutError):
    """No connection within the time for it; the message has that time. The request was not sent."""


class HungUp(Broken):
    """The server, or the network, closed the connection."""


class TooLarge(Broken):
    """The response exceeds the maximum size."""


class Answer(NamedTuple):
    """A response; `headers` by name in the usual spelling (Retry-After)."""

    code: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server: a base URL, and the TLS settings for https."""

    url: str
    tls: ssl.SSLContext | None
    tls_name: str | None = None
    """Expected name in the certificate, if not the URL's host."""
    proxy: Proxy | None = None
    """Proxy for a tunnel to the server; only for https."""


class Connections:
    """The connections to one server.

    The most recently used connection is used first, so that connections from a burst expire.
    """

    def __init__(self, server: Server, *, sockets: Sockets, max_body: int) -> None:
        """Read at most `max_body` bytes of a response."""
        url = urlsplit(server.url)
        self._host = url.hostname or ""
        self._port = url.port or (443 if server.tls is not None else 80)
        self._server = server
        self._sockets = sockets
        self._max_body = max_body
        self._prefix = url.path
        self._host_line = f"Host: {url.netloc}\r\n"
        self._idle: deque[_Connection] = deque()
        self._open: set[_Answering] = set()
        self._opening = asyncio.Semaphore(OPENED_AT_ONCE)

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_seconds: float,
    ) -> Answer:
        """Send one request and read its response; `path` is already encoded.

        A GET is retried once if the server had closed the reused connection.

        Raises:
            Broken: the response is missing or incomplete; the request may have been executed.
            NoConnection: none within `connect_seconds`.
            OSError: no connection.
            ValueError: a header, or the path, has a line break.
        """
        request = self._encode(method, path, headers, body)
        connection, is_new = await self._acquire(connect_seconds)
        try:
            return await self._on(connection, request)
        except HungUp:
            if is_new or method != "GET":
                raise
        return await self._on(await self._new(connect_seconds), request)

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], *, connect_seconds: float, seconds: float
    ) -> AsyncGenerator[Stream, None]:
        """GET a streamed response, on a separate connection that closes with the context.

        Raises:
            Broken: there is no response.
            NoConnection: none within `connect_seconds`.
            TimeoutError: no response within `seconds` after that.
            OSError: no connection.
            ValueError: a header, or the path, has a line break.
        """
        request = self._encode("GET", path, headers, None)
        stream = await self._connect(connect_seconds, Stream(self._open))
        try:
            async with asyncio.timeout(seconds):
                await stream.begin(request)
            yield stream
        finally:
            stream.abort()

    def close(self) -> None:
        """Close all connections without a TLS shutdown, which the peer could delay."""
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _encode(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._host_line}{''.join(lines)}"
        if head.count("\n") != len(lines) + 2 or head.count("\r") != len(lines) + 2:
            raise ValueError("a header or the path of a request has a line break")
        if body is None:
            return f"{head}\r\n".encode()
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def _on(self, connection: _Connection, request: bytes) -> Answer:
        try:
            answer = await connection.exchange(request)
        except BaseException:
            # Cancelled, late or broken: the rest of the response has no reader.
            connection.abort()
            raise
        if connection.is_lost:
            return answer
        now = asyncio.get_running_loop().time()
        connection.idle_since = now
        self._idle.append(connection)
        if self._idle[0].idle_since < now - IDLE_SECONDS:
            self._idle.popleft().abort()
        return answer

    async def _acquire(self, seconds: float) -> tuple[_Connection, bool]:
        """Return a connection, and whether it is new."""
        if (waiting := self._take()) is not None:
            return waiting, False
        try:
            await asyncio.wait_for(self._opening.acquire(), PATIENCE)
        except TimeoutError:
            # No connection will be released, and handshakes are slow: waiting saves nothing.
            return await self._new(seconds), True
        try:
            if (waiting := self._take()) is not None:
                return waiting, False
            return await self._new(seconds), True
        finally:
            self._opening.release()

    def _take(self) -> _Connection | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_lost and connection.idle_since >= oldest:
                return connection
            connection.abort()
        return None

    async def _new(self, seconds: float) -> _Connection:
        return await self._connect(seconds, _Connection(self._open, self._max_body))

    async def _connect(self, seconds: float, connection: _A) -> _A:
        """Open a connection, which `connection` then reads."""
        loop = asyncio.get_running_loop()
        server = self._server
        name = None if server.tls is None else server.tls_name or self._host
        try:
            async with asyncio.timeout(seconds):
                host, port = self._host, self._port
                if server.proxy is not None:
                    host, port = server.proxy.host, server.proxy.port
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                connected = await start_connection(
                    found,
                    happy_eyeballs_delay=_EYEBALLS_DELAY,
                    interleave=1,
                    socket_factory=self._sockets.make,
                )
                if server.proxy is not None:
                    await self._tunnel(connected, server.proxy)
                await loop.create_connection(
                    lambda: connection,
                    sock=connected,
                    ssl=server.tls,
                    server_hostname=name,
                )
        except TimeoutError as error:
            raise NoConnection(f"no connection within {seconds:g} s") from error
        return connection

    async def _tunnel(self, connected: socket.socket, proxy: Proxy) -> None:
        """Let a proxy connect a socket to the server. Raises Broken, or OSError."""
        loop = asyncio.get_running_loop()
        place = f"{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"
        lines = [f"{name}: {value}\r\n" for name, value in proxy.headers.items()]
        request = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{''.join(lines)}\r\n"
        try:
            await loop.sock_sendall(connected, request.encode())
            answer = b""
            while _END not in answer:
                # The server sends nothing before we do, so these bytes are the proxy's only.
                received = await loop.sock_recv(connected, _MOST_HEAD)
                answer += received
                if not received or len(answer) > _MOST_HEAD:
                    raise HungUp(f"the proxy {proxy.url} has hung up")
            status = answer.split(b"\r\n", 1)[0].decode("latin-1")
            if status.split(" ")[1:2] != ["200"]:
                raise Broken(f"the proxy {proxy.url} refused the connection: {status}")
        except BaseException:
            connected.close()
            raise


class _Answering(asyncio.Protocol):
    """One connection, and the callbacks of llhttp for its responses."""

    def __init__(self, register: set[_Answering]) -> None:
        self._register = register
        self._parser = HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._headers: dict[str, str] = {}

    @property
    def is_lost(self) -> bool:
        """Return whether nothing can be sent on it any more."""
        return self._transport is None or self._transport.is_closing()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's class.
        self._transport = cast(asyncio.Transport, transport)
        self._register.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._register.discard(self)
        self._fail(HungUp(f"the connection was lost: {exc}" if exc else "the server has hung up"))

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(Broken(f"the answer is no HTTP: {error}"))

    def on_message_begin(self) -> None:
        """Begin a new response."""
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add one header."""
        self._headers[name.decode("latin-1").title()] = value.decode("latin-1")

    def _send(self, request: bytes) -> None:
        if self._transport is None or self.is_lost:
            raise HungUp("the server has hung up")
        self._transport.write(request)

    def _fail(self, why: Broken) -> None:
        raise NotImplementedError


_A = TypeVar("_A", bound=_Answering)


class _Connection(_Answering):
    """A connection that handles one request at a time."""

    def __init__(self, register: set[_Answering], max_body: int) -> None:
        super().__init__(register)
        self._max_body = max_body
        self._waiting: asyncio.Future[Answer] | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self.idle_since = 0.0

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and wait for its response. Raises Broken."""
        self._send(request)
        self._waiting = asyncio.get_running_loop().create_future()
        return await self._waiting

    @override
    def on_message_begin(self) -> None:
        """Begin a new response; an unrequested one would be mistaken for that to the next
        request.
        """
        super().on_message_begin()
        self._chunks, self._size = [], 0
        if self._waiting is None:
            self.abort()

    def on_body(self, chunk: bytes) -> None:
        """Add a part of the body."""
        self._size += len(chunk)
        if self._size > self._max_body:
            self._fail(TooLarge(f"the answer is larger than {self._max_body} bytes"))
        else:
            self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        """End a response; informational ones (1xx) are ignored."""
        code = self._parser.get_status_code()
        waiting = self._waiting
        if code < 200 or waiting is None:
            return
        self._waiting = None
        if not self._parser.should_keep_alive():
            self.abort()
        if not waiting.done():
            waiting.set_result(Answer(code, self._headers, b"".join(self._chunks)))

    @override
    def _fail(self, why: Broken) -> None:
        waiting, self._waiting = self._waiting, None
        self._chunks = []
        if waiting is not None and not waiting.done():
            waiting.set_exception(why)
        self.abort()


class Stream(_Answering):
    """A response that is read as a stream.

    Attributes:
        code: its status; 0: it has not begun.
    """

    def __init__(self, register: set[_Answering]) -> None:
        super().__init__(register)
        self.code = 0
        self._parts: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._is_whole = False
        self._wrong: Broken | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers by name in the usual spelling (Retry-After)."""
        return self._headers

    async def begin(self, request: bytes) -> None:
        """Send the request and wait for the response's head. Raises Broken."""
        self._send(request)
        while not self.code:
            await self._hear()

    async def parts(self, *, silence: float | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the body in parts.

        Raises:
            TimeoutError: no byte arrived for `silence` seconds.
            Broken: the body is incomplete.
        """
        while True:
            if self._parts:
                parts, self._parts, self._size = self._parts, [], 0
                if self._transport is not None and not self.is_lost:
                    self._transport.resume_reading()
                yield b"".join(parts)
            elif self._is_whole:
                return
            else:
                async with asyncio.timeout(silence):
                    await self._hear()

    async def _hear(self) -> None:
        """Wait for the next bytes."""
        if self._wrong is not None:
            raise self._wrong
        self._news.clear()
        await self._news.wait()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._news.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        framed = "Content-Length" in self._headers or "Transfer-Encoding" in self._headers
        # Without a length a response ends with its connection (RFC 9112, 6.3).
        self._is_whole |= bool(self.code) and exc is None and not framed
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Read the head; informational responses (1xx) are ignored."""
        code = self._parser.get_status_code()
        self.code = code if code >= 200 else 0

    def on_body(self, chunk: bytes) -> None:
        """Add a part of the body."""
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size > _MOST_AHEAD and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """End the response."""
        self._is_whole = bool(self.code)

    @override
    def _fail(self, why: Broken) -> None:
        self._wrong = self._wrong or why
        self._news.set()
        self.abort()
