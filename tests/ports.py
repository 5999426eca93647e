"""TCP ports for programs that are given their numbers before they start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports of all of this machine's addresses that no other program gets until the block ends.

    A socket of this process is bound to each of them and does not listen. The kernel chose the
    number and gives a bound one to no bind to port 0 and to no outgoing connection, so that
    neither a run of tests beside this one nor any other program can have it. A program that is
    given the number can listen on it, more than once: as servers do, both set SO_REUSEADDR. Until
    it listens, connections are refused.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("", 0))
        yield [each.getsockname()[1] for each in sockets]


@contextmanager
def held_port() -> Iterator[int]:
    """One of `held_ports`."""
    with held_ports(1) as (port,):
        yield port
