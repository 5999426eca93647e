"""What is attacked and asked, and how to reach it."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

_CONNECT_SECONDS = 5.0
_REVIEWED = frozenset({"/validate", "/mutate"})


def request(
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    kind: str = "application/json",
    token: str = "",
) -> bytes:
    """A request as it goes over the wire.

    Args:
        body: with `kind` as its content type.
        token: a bearer token to show.
    """
    fields = [f"{method} {path} HTTP/1.1", "Host: target"]
    if token:
        fields.append(f"Authorization: Bearer {token}")
    if body is not None:
        fields += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*fields, "", ""]).encode() + (body or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A service's port and one request that it answers with 200."""

    host: str
    port: int
    tls: bool
    request: bytes
    """Head and body, as they go over the wire; without `Connection: close`."""

    @property
    def head(self) -> bytes:
        """The request up to its body."""
        return self.request.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    @property
    def path(self) -> str:
        """What the request asks for."""
        return self.request.split(b" ", 2)[1].decode()

    @property
    def is_webhook(self) -> bool:
        """Whether it takes reviews."""
        return self.path in _REVIEWED

    def tls_context(self) -> ssl.SSLContext | None:
        """For a client that does not mind who answers; None where nothing is encrypted."""
        if not self.tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    async def connect(
        self, source: str | None, *, tls: ssl.SSLContext | None, limit: int = 2**16
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection.

        Args:
            source: the address to come from; None: whichever the system takes.
            tls: from `tls_context`, or None to stay below TLS.
            limit: bytes that the reader takes before it stops reading from the socket.

        Raises:
            OSError: refused, or not accepted in time.
        """
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                self.host, self.port, local_addr=(source, 0) if source else None, limit=limit
            )
            if tls is not None:
                plain = writer.transport
                try:
                    await writer.start_tls(tls)
                except BaseException:
                    # Cancelled within a handshake asyncio leaves the socket open.
                    plain.abort()
                    raise
            return reader, writer
