"""TCP ports for programs that tests start."""

from __future__ import annotations

import itertools
import os
import socket

# Below the range that Linux takes the ports of outgoing connections from (32768 and up): one of
# those would be anybody's again before the program that it was chosen for listens on it.
_FIRST, _LAST = 20_000, 32_767
# Runs side by side begin in different places; one run gives each port once until all were given.
_candidates = itertools.cycle(range(_FIRST, _LAST + 1))
for _ in range(os.getpid() * 100 % (_LAST - _FIRST)):
    next(_candidates)


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this machine that nobody listens on."""
    for port in itertools.islice(_candidates, _LAST - _FIRST + 1):
        with socket.socket() as probe:
            # As servers do: a connection that has ended and lingers is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {_FIRST} to {_LAST} of {host} is free")
