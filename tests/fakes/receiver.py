"""An HTTP receiver of notifications, which keeps what it gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

from tests.fakes.web import Handler, serving


@dataclass(slots=True)
class Receiver:
    """What has come, and how it is answered."""

    url: str
    status: int = 200
    location: str = ""
    """Where a redirection leads."""
    open: threading.Event = field(default_factory=threading.Event)
    """Answers wait for it."""
    got: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Path and body of each request."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive on a port of this machine's loopback."""

    class Taking(Handler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append((self.path, json.loads(text)))
            receiver.open.wait(60)
            try:
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                pass  # the client was killed

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}")
    receiver.open.set()
    with serving(server):
        try:
            yield receiver
        finally:
            receiver.open.set()
