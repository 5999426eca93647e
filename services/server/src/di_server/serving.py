"""Limits for the clients of the server."""

from __future__ import annotations

from typing import Final

from di_server.coordination import operations as coordination_operations
from di_server.deadline import COORDINATION_SECONDS
from di_server.members import exchange
from di_server.rest.envelope import failure_body
from di_server.rest.operation import MAX_BODY
from di_service.serving.bounds import Bounds

READ_SECONDS: Final = 5.0
_COORDINATION: Final = tuple(f"{prefix}/" for prefix in coordination_operations.PREFIXES)


def _body_bytes(path: str) -> int:
    if path == exchange.PATH:
        return exchange.MAX_BODY
    return coordination_operations.MAX_BODY if path.startswith(_COORDINATION) else MAX_BODY


REST: Final = Bounds(
    handshake_seconds=READ_SECONDS,
    read_seconds=READ_SECONDS,
    # While the API server is slow, as long as the longest wait of a client.
    queue_seconds=COORDINATION_SECONDS,
    write_seconds=5.0,
    idle_seconds=75.0,
    connections=1024,
    connections_of_source=256,
    body_bytes=_body_bytes,
    bodies_bytes=32 * 1024 * 1024,
)


def refusal(_status: int, message: str) -> bytes:
    """Return the body of a response to input that never became a request."""
    return failure_body(message)
