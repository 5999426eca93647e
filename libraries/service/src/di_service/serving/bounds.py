"""How long and how much a client may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LINGER_SECONDS = 1.0
"""For a client to read its last answer. Closing with unread bytes resets the connection, and the
answer may be lost on the way (RFC 9112, section 9.6)."""
LINGER_BYTES = 16 * 1024 * 1024
"""Of a body that was refused by its length, most is still under way; throwing it away is cheap."""

Tenant = Callable[[str, bytes], str]
"""From the path and the body of a request: for whom its source makes it; empty: for itself."""


def _one_tenant(_path: str, _body: bytes) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of one front; times in seconds, sizes in bytes."""

    handshake_seconds: float
    read_seconds: float
    """From the first byte of a request to its last. One time-out a read would not do, a byte a
    second passes each of them."""
    queue_seconds: float
    """For a thread to be free."""
    write_seconds: float
    """For a client to take what was written to it."""
    idle_seconds: float
    """Between two requests, and before the first."""
    connections: int
    """In all. When there are as many, the source that has most loses its longest quiet one."""
    connections_of_source: int
    """From one address; one more ends its longest quiet one."""
    connections_at_once: int = 200
    """New ones from one address that has opened none of late: as many as an API server has changes
    under way by its defaults."""
    connections_per_second: float = 10.0
    """New ones from one address that opens one after another, and as many more as it had answers on
    connections that it had used before. Their handshakes take a fortieth of a processor."""
    body_bytes: Callable[[str], int]
    """Of one request, by its path. Of a longer one the application gets one byte more."""
    bodies_bytes: int
    """Of all requests that have not been answered. Above it the source that has most loses its
    largest one that no thread has begun."""
    tenant: Tenant = _one_tenant
    """Reads the request's own word, in the event loop."""
    line_bytes: int = 4094
    fields: int = 40
    field_bytes: int = 8190
    head_bytes: int = 16 * 1024
    pipelined: int = 4
    """Requests of one connection that wait for the answer before."""
    counts_refused_tokens: bool = True
    """Whether an answer of 401 is a fault of its source. Not where one source is a proxy that many
    people come through, each with a token of their own."""
    leave_seconds: float = LINGER_SECONDS
    """For a request that is under way on an idle connection when the front ends. Its answer is the
    connection's last; one that is closed instead fails a client that does not try again."""
