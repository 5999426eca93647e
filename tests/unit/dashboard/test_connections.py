"""Connections to the page that `di dashboard` serves on this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from typing import Any

from di_dashboard.main import HOST, _server


def sends_at_once(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
    """Answer with TCP_NODELAY of the connection."""
    option = environ["werkzeug.socket"].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1")])
    return [str(int(bool(option))).encode()]


def test_a_body_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    server = _server(0)
    server.app = sends_at_once
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        connection = HTTPConnection(HOST, server.port, timeout=30)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"1"
        connection.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
