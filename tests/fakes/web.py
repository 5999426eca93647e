"""HTTP servers in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from typing_extensions import override


class Handler(BaseHTTPRequestHandler):
    """Logs nothing."""

    def answer(self, status: int, body: bytes = b"") -> None:
        """Write a whole response."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Serve until the end of the block; yields host and port."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
