"""Addresses of the internet that this machine serves itself, to programs that use a proxy."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from di_certs.authority import Authority

_SECONDS: Final = 60
_MOST: Final = 65536


@contextmanager
def served(files: Mapping[str, str], folder: Path) -> Iterator[dict[str, str]]:
    """Serve texts at their https addresses.

    Args:
        files: by address.
        folder: for the certificates.

    Yields:
        The environment with which programs find them.
    """
    now, lifetime = datetime.now(UTC), timedelta(days=1)
    authority = Authority.create("served", now=now, lifetime=lifetime)
    hosts = sorted({str(urlsplit(address).hostname) for address in files})
    leaf = authority.issue(hosts[0], now=now, lifetime=lifetime, hosts=hosts, server=True)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    (folder / "leaf.pem").write_bytes(leaf.certificate_pem + leaf.private_key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "leaf.pem")
    with socketserver.ThreadingTCPServer(
        ("127.0.0.1", 0), partial(_Tunnel, files, context), bind_and_activate=True
    ) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            port = server.server_address[1]
            yield {
                "HTTPS_PROXY": f"http://127.0.0.1:{port}",
                "SSL_CERT_FILE": str(folder / "ca.pem"),
            }
        finally:
            server.shutdown()
            thread.join()


class _Tunnel(socketserver.StreamRequestHandler):
    """Answers CONNECT, and the one request that follows within TLS."""

    timeout = _SECONDS

    def __init__(self, files: Mapping[str, str], context: ssl.SSLContext, *given: Any) -> None:
        self._files = files
        self._context = context
        super().__init__(*given)

    @override
    def handle(self) -> None:
        host = _head(self.rfile).split()[1].rpartition(":")[0]
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with self._context.wrap_socket(self.connection, server_side=True) as inner:
            path = _head(inner.makefile("rb")).split()[1]
            text = self._files.get(f"https://{host}{path}")
            status = "404 Not Found" if text is None else "200 OK"
            body = (text or "").encode()
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            inner.sendall(head.encode() + body)


def _head(stream: BufferedIOBase) -> str:
    """Return the first line of a request, and read its others."""
    first = stream.readline(_MOST)
    while stream.readline(_MOST).strip():
        pass
    return first.decode("ascii")
