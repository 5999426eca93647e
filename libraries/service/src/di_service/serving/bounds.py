"""Limits on what clients can use: times, connections and memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LINGER_SECONDS = 1.0
"""Seconds for a client to read its last response. Closing with unread bytes resets the connection,
and the response can be lost (RFC 9112, section 9.6).
"""
LINGER_BYTES = 16 * 1024 * 1024
"""Bytes that are discarded after a body was refused by its length: most of it is already sent, and
discarding is cheap.
"""

Tenant = Callable[[str, bytes], str]
"""Returns the tenant of a request from its path and body; empty: the source itself."""


def _one_tenant(_path: str, _body: bytes) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one front; times in seconds, sizes in bytes."""

    handshake_seconds: float
    read_seconds: float
    """From the first byte of a request to its last. A timeout per read would not help, because one
    byte per second passes it.
    """
    queue_seconds: float
    """Maximum wait for a free thread."""
    write_seconds: float
    """Maximum time for a client to read a response."""
    idle_seconds: float
    """Maximum time between two requests, and before the first."""
    connections: int
    """Maximum number of connections. At the limit, the source with the most loses its longest idle
    one.
    """
    connections_of_source: int
    """Maximum number of connections from one address; one more closes its longest idle one."""
    connections_at_once: int = 200
    """Burst of new connections from one address: as many as the changes that an API server handles
    concurrently by default.
    """
    connections_per_second: float = 10.0
    """Rate of new connections from one address. Responses on reused connections raise it by as
    many. The handshakes take a fortieth of a CPU.
    """
    body_bytes: Callable[[str], int]
    """Maximum size of one request's body, by path. Of a longer body the application gets one byte
    more than the limit.
    """
    bodies_bytes: int
    """Maximum size of all unanswered requests. Above it the source with the most loses its largest
    request that no thread has begun.
    """
    tenant: Tenant = _one_tenant
    """Reads the tenant from the request itself, in the event loop."""
    line_bytes: int = 4094
    fields: int = 40
    field_bytes: int = 8190
    head_bytes: int = 16 * 1024
    pipelined: int = 4
    """Requests of one connection that can wait for the previous response."""
    counts_refused_tokens: bool = True
    """Whether a 401 response is a fault of its source. Disabled if the source is a proxy for many
    users, each with a token.
    """
    leave_seconds: float = LINGER_SECONDS
    """Time for a request on an idle connection when the front shuts down. Its response is the
    connection's last; closing instead would fail a client that does not retry.
    """
