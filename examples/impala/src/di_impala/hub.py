"""The HTTP side of the learner: it reads requests, and lets a function answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from di_impala.client import Answer

MAX_BODY = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody asks."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = b""


class Hub(ThreadingHTTPServer):
    """A server that hundreds may come to at once: with the usual queue of five, whoever finds it
    full comes again a second later."""

    daemon_threads = True
    request_queue_size = 1024


def serve(answer: Callable[[Request], Answer], *, port: int) -> Hub:
    """Start answering in the background; call `shutdown()` on the result to stop.

    A LookupError or ValueError of the function is the sender's fault.
    """
    hub = Hub(("", port), _handler(answer))
    threading.Thread(target=hub.serve_forever, daemon=True, name="hub").start()
    return hub


def _handler(answer: Callable[[Request], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            try:
                self._send(answer(self._request()))
            except (LookupError, TypeError, ValueError) as error:
                # Whatever of the body was not read is no next request.
                self.close_connection = True
                self._send(Answer(400, repr(error).encode()))

        def _request(self) -> Request:
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 <= length <= MAX_BODY:
                raise ValueError(f"a body has at most {MAX_BODY} bytes")
            parts = urlsplit(self.path)
            return Request(
                method=self.command,
                path=parts.path,
                query=dict(parse_qsl(parts.query)),
                body=self.rfile.read(length),
            )

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.code)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: object) -> None:
            """Say nothing: a line for every request would bury the training log."""

    return Handler
