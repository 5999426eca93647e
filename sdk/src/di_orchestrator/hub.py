"""What a pod serves to the others of its job, where that is a function of what is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

MAX_BODY = 64 * 1024 * 1024
IDLE_SECONDS = 30
"""After which a connection that brings nothing is closed."""


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


class Hub:
    """Answers other pods over HTTP, until it is closed; `with` does that.

        with di.Hub(answer, di.PORT):
            ...                         # and meanwhile `answer` is called, from many threads

    Args:
        answer: what to say; a LookupError, TypeError or ValueError is the asker's fault (HTTP 400).
        port: where it listens, on all addresses; 0: any.
        most_bytes: of a body; a longer one is not read.
    """

    def __init__(
        self, answer: Callable[[Asked], Reply], port: int, *, most_bytes: int = MAX_BODY
    ) -> None:
        self._server = _Server(("", port), _handler(answer, most_bytes))
        self.port: int = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, args=(0.1,), daemon=True, name="di-hub"
        ).start()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the usual queue of five, whoever finds it full comes again a second later.
    request_queue_size = 1024


def _handler(answer: Callable[[Asked], Reply], most_bytes: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def _answer(self) -> None:
            try:
                self._send(answer(self._asked()))
            except (LookupError, TypeError, ValueError) as error:
                # Whatever of the body was not read is no next request.
                self.close_connection = True
                self._send(Reply(400, repr(error).encode()))

        def _asked(self) -> Asked:
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= most_bytes:
                raise ValueError(f"a body has at most {most_bytes} bytes")
            parts = urlsplit(self.path)
            return Asked(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                self.rfile.read(length),
                self.path,
            )

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *args: object) -> None:
            """Say nothing on stderr, which is the program's."""

    return Handler
