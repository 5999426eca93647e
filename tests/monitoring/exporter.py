"""An exporter of metrics for Prometheus, as a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


def sample(name: str, value: float, **labels: str) -> str:
    """A line of the text format."""
    pairs = ",".join(f'{key}="{each}"' for key, each in labels.items())
    return f"{name}{{{pairs}}} {value}\n"


@contextmanager
def exporting(samples: str) -> Iterator[str]:
    """Serve samples while the block runs; yields host and port."""
    text = samples.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # as it is there
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        @override
        def log_message(self, format: str, *args: object) -> None:  # as it is there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
