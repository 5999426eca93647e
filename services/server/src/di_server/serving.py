"""What clients of the server may, and what is served on the address for probes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from di_api.serving.bounds import Bounds
from di_server.coordination import operations as coordination_operations
from di_server.deadline import COORDINATION_SECONDS
from di_server.rest.envelope import failure_body
from di_server.rest.operation import MAX_BODY

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

READ_SECONDS: Final = 5.0
PROBE_THREADS: Final = 4
"""One may wait for the API server; the others repeat the answer before."""
_PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_COORDINATION: Final = tuple(f"{prefix}/" for prefix in coordination_operations.PREFIXES)


def _body_bytes(path: str) -> int:
    return coordination_operations.MAX_BODY if path.startswith(_COORDINATION) else MAX_BODY


REST: Final = Bounds(
    handshake_seconds=READ_SECONDS,
    read_seconds=READ_SECONDS,
    # While the API server is slow, as long as the client is kept that waits longest.
    queue_seconds=COORDINATION_SECONDS,
    write_seconds=5.0,
    idle_seconds=75.0,
    connections=1024,
    connections_of_source=256,
    body_bytes=_body_bytes,
    bodies_bytes=32 * 1024 * 1024,
)
PROBES: Final = Bounds(
    handshake_seconds=READ_SECONDS,
    read_seconds=READ_SECONDS,
    queue_seconds=5.0,
    write_seconds=5.0,
    idle_seconds=30.0,
    connections=1024,
    connections_of_source=512,
    body_bytes=lambda _path: 0,
    bodies_bytes=1024,
)


def probes_alone(application: WSGIApplication) -> WSGIApplication:
    """The application without the paths that may wait long for somebody else."""

    def probes(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] not in _PROBES:
            # There is nothing at it, and that is what the application says.
            environ["PATH_INFO"] = "/"
        return application(environ, start_response)

    return probes


def refusal(_status: int, message: str) -> bytes:
    """The body of a response to what never became a request."""
    return failure_body(message)
