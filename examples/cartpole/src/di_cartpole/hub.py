"""The learner's HTTP side: collectors and the evaluator come here."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from di_cartpole.work import Book

MAX_BODY = 1 << 20


def serve(book: Book, *, port: int) -> ThreadingHTTPServer:
    """Start answering in the background; call `shutdown()` on the result to stop."""
    server = ThreadingHTTPServer(("", port), _handler(book))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="hub").start()
    return server


def answer(book: Book, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the learner says to one request.

    Raises:
        LookupError: there is no such path, or the body lacks a field.
    """
    match path:
        case "/work":
            return book.work(body["rank"], body["idle"])
        case "/results":
            book.results(body["generation"], body["results"])
            return {}
        case "/policy":
            return book.policy(body["rank"])
        case "/evaluations":
            book.evaluated(body)
            return {}
        case _:
            raise LookupError(path)


def _handler(book: Book) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY)
            try:
                code, result = 200, answer(book, self.path, json.loads(self.rfile.read(length)))
            except (LookupError, TypeError, ValueError) as error:
                code, result = 400, {"error": str(error)}
            data = json.dumps(result).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Say nothing: a line for every request would bury the training log."""

    return Handler
