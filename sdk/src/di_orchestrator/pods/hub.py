"""An HTTP server for the other pods of the job, whose responses come from one function."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from di_orchestrator.errors import AnswersFailed
from di_orchestrator.pods.answers import Answers
from di_orchestrator.pods.calls import HEADER_IDENTITY
from di_orchestrator.pods.lobby import Lobby
from di_orchestrator.pods.messages import Answering, Asked, Reply, query_of
from di_orchestrator.pods.proof import HEADER, HEADER_DRAIN, Proof, is_drain_token, secret_of

log = logging.getLogger("di_orchestrator")

MOST_IDENTITY = 64
"""Maximum characters of a request's identity."""
MAX_BODY = 64 * 1024 * 1024
IDLE_SECONDS = 30
"""Seconds after which an idle connection of a pod of the job is closed."""
STRANGER_SECONDS = 30.0
"""Seconds within which the body of a request without a proof has to arrive."""
STRANGERS = 8
"""Concurrent requests without a proof from one source, if other requests need a proof."""
UNPROVEN = 128
"""Concurrent requests from one source if no request needs a proof, because then each pod of the job
is such a source.
"""
ANSWER_SECONDS = 5.0
"""Seconds that the shutdown waits for running requests."""


_TOO_MANY = Reply(503, b"too many requests without a proof from one source")


class Hub:
    """Answers other pods of the job over HTTP, until it is closed; `with` closes it.

        with di.Hub(answer, di.PORT):
            ...                         # meanwhile `answer` is called, from many threads

    `di.call` proves membership in the same job; other requests get HTTP 401. Outside a job, and in
    a job of an earlier operator, every request is answered. A connection has ten seconds for the
    head of its first request, and no thread before that. Without a proof it gets one response.

    Args:
        answer: returns the response. `di.BadRequest`, a ValueError or `LookupError(...)` is a
            mistake in the request (HTTP 400), `di.Gone` is HTTP 410. Any other exception, also a
            KeyError, is a bug: it is logged and counted (HTTP 500).
        port: port on all addresses of both families; 0: any free one.
        most_bytes: maximum size of a body; a longer one is not read.
        public: paths at which every GET is answered: a probe of the kubelet, metrics.
        drain: path at which the kubelet's token is accepted too; None: nowhere.
        job_only: False answers every request.
    """

    def __init__(
        self,
        answer: Answering,
        port: int,
        *,
        most_bytes: int = MAX_BODY,
        public: Collection[str] = (),
        drain: str | None = None,
        job_only: bool = True,
    ) -> None:
        self._in_hand = _InHand()
        secret = secret_of(os.environ) if job_only else None
        door = _Door(secret, frozenset(public), drain)
        sources = _Sources(UNPROVEN if secret is None else STRANGERS)
        self.answers = Answers(answer)
        self._served = _Served(self.answers, most_bytes, self._in_hand, door, sources)
        listener = listening(port)
        self.port: int = listener.getsockname()[1]
        self._lobby = Lobby(listener, self._begin)
        threading.Thread(target=self._lobby.serve, daemon=True, name="di-hub").start()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        failed = self.answers.always_failed()
        if failed and kind is None:
            counts = ", ".join(f"{path} ({count} times)" for path, count in failed.items())
            raise AnswersFailed(
                f"the program could answer no request: {counts}; the log has its errors"
            )

    @property
    def failures(self) -> int:
        """Return the number of requests that failed by an error of `answer`."""
        return self.answers.failures

    def close(self) -> None:
        """Accept no new requests, and wait for running ones for five seconds."""
        self._lobby.close()
        self._in_hand.are_answered(ANSWER_SECONDS)

    def _begin(self, sock: socket.socket, address: tuple[str, int], head: bytes) -> None:
        try:
            threading.Thread(
                target=self._serve, args=(sock, address, head), daemon=True, name="di-hub-answer"
            ).start()
        except RuntimeError:
            # The process may have reached its limit of threads.
            sock.close()

    def _serve(self, sock: socket.socket, address: tuple[str, int], head: bytes) -> None:
        # Errors of `answer` are logged elsewhere; a client that disconnects is not logged.
        with contextlib.suppress(OSError), contextlib.closing(sock):
            sock.settimeout(IDLE_SECONDS)
            _Handler(self._served, sock, address, head)
            sock.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class _Door:
    """Decides which requests are answered."""

    secret: bytes | None
    public: frozenset[str]
    drain: str | None

    def lets_in(self, method: str, target: str, headers: Message) -> Proof | bool:
        """Return whether a request is answered, or its proof, which also has to match its body."""
        if self.secret is None:
            return True
        if method == "GET":
            path, shown = urlsplit(target).path, headers.get(HEADER_DRAIN) or ""
            if path in self.public or (path == self.drain and is_drain_token(self.secret, shown)):
                return True
        found = Proof.read(headers.get(HEADER) or "")
        if found is None or not found.holds(self.secret, method, target, now=time.time()):
            return False
        return found


class _NotOfThisJob(Exception):
    """The request has no proof, or one of another job."""


def listening(port: int) -> socket.socket:
    """Return a socket that listens on all addresses of both families; port 0 is any free one."""
    # With the usual short queue, a client that finds it full retries a second later.
    backlog = 1024
    try:
        family = socket.AF_INET6
        return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=True)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise
        # The system has no IPv6.
        return socket.create_server(("", port), backlog=backlog)


class _Received(io.RawIOBase):
    """A connection as a file whose head was already read."""

    def __init__(self, sock: socket.socket, head: bytes) -> None:
        self._sock = sock
        self._head = memoryview(head)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._head:
            return self._sock.recv_into(into)
        count = min(len(into), len(self._head))
        into[:count], self._head = self._head[:count], self._head[count:]
        return count


class _Sources:
    """Counts running requests without a proof, by source."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextlib.contextmanager
    def place(self, source: str) -> Iterator[bool]:
        """Yield whether there is a place for a request, which is taken while it is answered."""
        with self._lock:
            has_place = self._counts[source] < self._most
            self._counts[source] += has_place
        try:
            yield has_place
        finally:
            with self._lock:
                self._counts[source] -= has_place
                self._counts = +self._counts


class _InHand:
    """The running requests."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def are_answered(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)


@dataclass(frozen=True)
class _Served:
    """State that the connections of one hub share."""

    answers: Answers
    most_bytes: int
    in_hand: _InHand
    door: _Door
    sources: _Sources


@lru_cache(maxsize=16)
def _warn_of_probe(path: str) -> None:
    """Log once that the kubelet cannot probe a path: all it shows of the refusal is a number."""
    log.warning(
        "a probe of the kubelet asks for %s, which only pods of the job may: the pod does not get "
        "ready, or is restarted; di.Hub(..., public=[%r]) lets the kubelet ask",
        path,
        path,
    )


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection, of which `head` was already read."""

    protocol_version = "HTTP/1.1"

    def __init__(
        self, served: _Served, sock: socket.socket, address: tuple[str, int], head: bytes
    ) -> None:
        self._served = served
        self._head = head
        # There is no server object: the lobby accepts connections.
        super().__init__(sock, address, cast("Any", None))

    def setup(self) -> None:
        self.connection = self.request
        self.rfile = io.BufferedReader(_Received(self.connection, self._head))
        # Head and body are sent together: of two small packets the second would wait for an
        # acknowledgement.
        self.wfile = self.connection.makefile("wb")

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        served = self._served
        with served.in_hand:
            try:
                proven = served.door.lets_in(self.command, self.path, self.headers)
                if not proven:
                    raise _NotOfThisJob("only pods of the job are answered here; di.call proves it")
                if isinstance(proven, Proof):
                    self._send(served.answers.of(self._asked(proven), self._identity))
                else:
                    self._answer_stranger()
            except _NotOfThisJob as error:
                self.close_connection = True
                if self.headers.get("User-Agent", "").startswith("kube-probe/"):
                    _warn_of_probe(urlsplit(self.path).path[:128])
                self._send(Reply(401, str(error).encode()))
            except ValueError as error:
                # The unread rest of the body must not be parsed as the next request.
                self.close_connection = True
                self._send(Reply(400, repr(error).encode()))

    def _answer_stranger(self) -> None:
        served = self._served
        # One response only: the next request might never come, or never end.
        self.close_connection = True
        with served.sources.place(self.client_address[0]) as has_place:
            if has_place:
                self._send(served.answers.of(self._asked(None), self._identity))
            else:
                self._send(_TOO_MANY)

    @property
    def _identity(self) -> str:
        return (self.headers.get(HEADER_IDENTITY) or "")[:MOST_IDENTITY]

    def _asked(self, proof: Proof | None) -> Asked:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= self._served.most_bytes:
            raise ValueError(f"a body has at most {self._served.most_bytes} bytes")
        body = self._body_of_stranger(length) if proof is None else self.rfile.read(length)
        if len(body) < length:
            raise ConnectionError("it went before it had said all")
        if proof is not None and not proof.is_of(body):
            raise _NotOfThisJob("the proof is of another body")
        parts = urlsplit(self.path)
        return Asked(self.command, parts.path, query_of(parse_qsl(parts.query)), body, self.path)

    def _body_of_stranger(self, length: int) -> bytes:
        """Read a body within a total time, which single bytes do not extend."""
        until, body = time.monotonic() + STRANGER_SECONDS, bytearray()
        while len(body) < length:
            self.connection.settimeout(max(0.001, until - time.monotonic()))
            if not (part := self.rfile.read1(length - len(body))):
                break
            body += part
        self.connection.settimeout(IDLE_SECONDS)
        return bytes(body)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Length", str(len(reply.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)
        self.wfile.flush()

    def log_message(self, *args: object) -> None:
        """Write nothing to stderr, which belongs to the program."""
