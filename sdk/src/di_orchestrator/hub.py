"""What a pod serves to the others of its job, where that is a function of what is asked."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from di_orchestrator.pods.proof import HEADER, HEADER_DRAIN, Proof, is_drain_token, secret_of

log = logging.getLogger("di_orchestrator")

MAX_BODY = 64 * 1024 * 1024
IDLE_SECONDS = 30
"""After which a connection that brings nothing is closed."""
ANSWER_SECONDS = 5.0
"""How long the end waits until those who have asked have their answer."""


@dataclass(frozen=True)
class Asked:
    """What a pod asks.

    Attributes:
        target: path and query as they came.
        query: the last value of each name.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    target: str = ""


@dataclass(frozen=True)
class Reply:
    """What it is answered."""

    status: int = 200
    body: bytes = b""


Answering = Callable[[Asked], Reply]


class Hub:
    """Answers other pods of the job over HTTP, until it is closed; `with` does that.

        with di.Hub(answer, di.PORT):
            ...                         # and meanwhile `answer` is called, from many threads

    `di.call` proves that it asks for a pod of the same job; others get HTTP 401. Outside a job, and
    in one that an operator before this version made, everybody is answered.

    Args:
        answer: what to say; a LookupError, TypeError or ValueError is the asker's fault (HTTP 400),
            any other exception is logged (HTTP 500).
        port: where it listens, on all addresses of both families; 0: any.
        most_bytes: of a body; a longer one is not read.
        public: paths at which everybody gets an answer to GET: a probe of the kubelet, metrics.
        drain: path at which the kubelet is answered too, which shows a token; None: nowhere.
        job_only: False answers everybody, whatever is asked.
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
        self._server = _listening(port, _handler(answer, most_bytes, self._in_hand, door))
        self.port: int = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, args=(0.1,), daemon=True, name="di-hub"
        ).start()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer nobody any more, but those who have asked, for five seconds."""
        self._server.shutdown()
        self._in_hand.are_answered(ANSWER_SECONDS)
        self._server.server_close()


@dataclass(frozen=True)
class _Door:
    """Who is answered."""

    secret: bytes | None
    public: frozenset[str]
    drain: str | None

    def lets_in(self, method: str, target: str, headers: Message) -> Proof | bool:
        """Whether a request is answered; a proof has to be of its body too."""
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
    """The request has no proof, or another one's."""


def _listening(port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    try:
        return _ServerOfBothFamilies(("", port), handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
        # The system has no IPv6.
        return _Server(("", port), handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the usual queue of five, whoever finds it full comes again a second later.
    request_queue_size = 1024

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who go without a word: what `answer` raises is told elsewhere."""


class _ServerOfBothFamilies(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _InHand:
    """The requests that are being answered."""

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


def _reply(answer: Answering, asked: Asked) -> Reply:
    try:
        return answer(asked)
    except (LookupError, TypeError, ValueError) as error:
        return Reply(400, repr(error).encode())
    except Exception as error:
        log.exception("%s %s could not be answered", asked.method, asked.path)
        return Reply(500, repr(error).encode())


def _handler(
    answer: Answering, most_bytes: int, in_hand: _InHand, door: _Door
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECONDS
        # Head and body go together: of two small packets the second waits for an acknowledgement.
        wbufsize = -1

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def _answer(self) -> None:
            with in_hand:
                try:
                    asked = self._asked()
                except _NotOfThisJob as error:
                    self.close_connection = True
                    self._send(Reply(401, str(error).encode()))
                except ValueError as error:
                    # What was not read of the body is no next request.
                    self.close_connection = True
                    self._send(Reply(400, repr(error).encode()))
                else:
                    self._send(_reply(answer, asked))

        def _asked(self) -> Asked:
            proven = door.lets_in(self.command, self.path, self.headers)
            if not proven:
                raise _NotOfThisJob("only pods of the job are answered here; di.call proves it")
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= most_bytes:
                raise ValueError(f"a body has at most {most_bytes} bytes")
            body = self.rfile.read(length)
            if len(body) < length:
                raise ConnectionError("it went before it had said all")
            if isinstance(proven, Proof) and not proven.is_of(body):
                raise _NotOfThisJob("the proof is of another body")
            parts = urlsplit(self.path)
            return Asked(self.command, parts.path, dict(parse_qsl(parts.query)), body, self.path)

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.flush()

        def log_message(self, *args: object) -> None:
            """Say nothing on stderr, which is the program's."""

    return Handler
