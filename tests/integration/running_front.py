"""A front that serves in this process."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from select import select
from typing import TYPE_CHECKING

from di_service.serving.bounds import Bounds
from di_service.serving.front import Front
from di_service.serving.later import LATER, Later
from di_service.serving.listeners import bound
from di_service.serving.streams import STREAM, Stream
from di_service.settings import Address
from tests.waiting import wait_until

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

HOST = "127.0.0.1"
STRANGER = "127.0.0.2"
LONG = 60.0
BOUNDS = Bounds(
    handshake_seconds=LONG,
    read_seconds=LONG,
    queue_seconds=LONG,
    write_seconds=LONG,
    idle_seconds=LONG,
    connections=256,
    connections_of_source=128,
    body_bytes=lambda _path: 1000,
    bodies_bytes=10_000,
)
GOOD = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\ngood"


@dataclass(slots=True)
class Application:
    """Echoes bodies; remembers what it was called with."""

    calls: list[WSGIEnvironment] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    """At /wait a call goes on when it is set."""
    later: Later | None = None
    """What a call at /later leaves to wait for."""
    stream: Stream | None = None
    """What the answer to a call at /stream goes on with."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self.calls.append(environ)
        body = environ["wsgi.input"].read()
        if environ["PATH_INFO"] == "/wait":
            self.gate.wait(LONG)
        if environ["PATH_INFO"] == "/later":
            environ[LATER] = self.later
        if environ["PATH_INFO"] == "/stream":
            environ[STREAM] = self.stream
        if environ["PATH_INFO"] == "/large":
            body = b"x" * 1_000_000
        status = "401 Unauthorized" if environ["PATH_INFO"] == "/refused" else "200 OK"
        start_response(status, [("Content-Length", str(len(body)))])
        return [body]

    @property
    def strangers(self) -> int:
        """Calls that came from elsewhere than this machine's usual address."""
        return sum(environ["REMOTE_ADDR"] != HOST for environ in self.calls)


@dataclass(slots=True)
class Running:
    """A front that serves, in a thread."""

    front: Front
    app: Application
    port: int
    stop: Callable[[], None]
    ended: threading.Event

    def client(self) -> HTTPConnection:
        return HTTPConnection(HOST, self.port, timeout=LONG)

    def raw(self, source: str = HOST) -> socket.socket:
        return socket.create_connection((HOST, self.port), LONG, (source, 0))

    def good(self) -> bytes:
        """The answer to a good request on a connection of its own."""
        client = self.client()
        client.request("POST", "/echo", b"good")
        answer = client.getresponse().read()
        client.close()
        return answer


@contextmanager
def running(
    *,
    bounds: Bounds = BOUNDS,
    threads: int = 2,
    tls: ssl.SSLContext | None = None,
    grace: float = LONG,
    host: str = HOST,
) -> Iterator[Running]:
    """A front on a free port."""
    app = Application()
    front = Front(
        app,
        threads=threads,
        bounds=bounds,
        refusal=lambda status, message: f'{{"{status}": "{message}"}}'.encode(),
        tls=(lambda: tls) if tls else None,
    )
    (listener,) = bound(Address(host=host, port=0))
    listener.listen(1024)
    port = listener.getsockname()[1]
    loop = asyncio.new_event_loop()
    ended = threading.Event()
    stopping = threading.Event()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(front.serve([listener], grace=grace))
        ended.set()

    def stop() -> None:
        # Once: what was told to stop may have closed its loop by the second time.
        if not stopping.is_set():
            stopping.set()
            loop.call_soon_threadsafe(front.stop)

    thread = threading.Thread(target=serve)
    thread.start()
    server = Running(front, app, port, stop, ended)
    try:
        with server.raw() as sock:
            # Or ended already, where the bounds are short and this machine is busy.
            wait_until(
                lambda: front.connections == 1 or select([sock], [], [], 0)[0],
                what="the front to serve",
            )
        wait_until(lambda: front.connections == 0)
        yield server
    finally:
        app.gate.set()
        stop()
        thread.join(2 * LONG)
    assert ended.is_set()


def head(sock: socket.socket) -> bytes:
    """What comes until the end of an answer's head."""
    data = b""
    while not data.endswith(b"\r\n\r\n") and (piece := sock.recv(1)):
        data += piece
    return data


def until_end(sock: socket.socket) -> bytes:
    """All that comes until the server closes."""
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data
