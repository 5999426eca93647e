"""No socket of a client is left when it goes, however its requests ended."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from di_certs.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY, write_certificates
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import CONFIGMAPS

HOST = "127.0.0.1"
REQUESTS = 8


@contextmanager
def deaf_server(certificates: Path, asked: threading.Semaphore) -> Iterator[int]:
    """Listen with TLS, release `asked` for each request, and answer none, nor any goodbye."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / CERTIFICATE, certificates / PRIVATE_KEY)
    with ExitStack() as held, socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            for _ in range(REQUESTS):
                plain, _ = listener.accept()
                connection = held.enter_context(context.wrap_socket(plain, server_side=True))
                assert connection.recv(4096)
                asked.release()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(60)


def test_requests_that_are_cancelled_leave_no_socket(tmp_path: Path) -> None:
    write_certificates(tmp_path, [HOST], now=datetime.now(UTC), lifetime=timedelta(days=1))
    asked = threading.Semaphore(0)

    async def main(port: int) -> None:
        config = KubeConfig(
            server=f"https://{HOST}:{port}", ca_pem=(tmp_path / CA_CERTIFICATE).read_bytes()
        )
        async with KubeClient(config=config) as client:
            requests = [
                asyncio.create_task(client.get(CONFIGMAPS, "a", "ns")) for _ in range(REQUESTS)
            ]
            for _ in requests:
                assert await asyncio.to_thread(asked.acquire, timeout=30)
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)

    with deaf_server(tmp_path, asked) as port:
        gc.collect()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ResourceWarning)
            asyncio.run(main(port))
            gc.collect()
    assert [str(one.message) for one in said] == []
