"""Loaded by every Python process of a local job; imitates a pod's network.

A socket for all addresses listens on its pod's own address instead, or two pods could not use the
same port. The names of the job's pods resolve to their addresses.

Runs on any Python 3 of the user's, and imports nothing of ours.
"""

import importlib.machinery
import importlib.util
import os
import socket
import sys

TYPE_CHECKING = False  # its module would cost each process its import
if TYPE_CHECKING:
    from typing import Any

_DOMAIN = ".svc.cluster.local"


def _listen_on(own: str) -> None:
    bind = socket.socket.bind

    def bind_to_own(self, address):  # type: ignore[no-untyped-def]  # any Python, any address
        if self.family == socket.AF_INET and address[0] in ("", "0.0.0.0"):
            address = (own, *address[1:])
        elif (
            self.family == socket.AF_INET6
            and address[0] in ("", "::")
            # A socket for IPv6 only is unchanged: pods here have no IPv6 address.
            and not self.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        ):
            address = ("::ffff:" + own, *address[1:])
        return bind(self, address)

    socket.socket.bind = bind_to_own  # type: ignore[method-assign]  # it is the purpose


def _find_by(path: str) -> None:
    """Resolve names from a file first: lines with an address and a name without
    `svc.cluster.local`.
    """

    def found(host: "Any") -> "Any":
        if not isinstance(host, str) or "." not in host:
            return host
        name = host.rstrip(".")
        if name.endswith(_DOMAIN):
            name = name[: -len(_DOMAIN)]
        try:
            with open(path) as file:
                known = dict(line.split()[::-1] for line in file)
        except (OSError, ValueError):
            return host
        return known.get(name, host)

    def by_host(look_up: "Any") -> "Any":
        return lambda host, *more, **named: look_up(found(host), *more, **named)

    def by_address(connect: "Any") -> "Any":
        def to_found(self: "Any", address: "Any") -> "Any":
            if self.family == socket.AF_INET:
                address = (found(address[0]), *address[1:])
            return connect(self, address)

        return to_found

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, by_host(getattr(socket, name)))
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, by_address(getattr(socket.socket, name)))


def _load_the_next() -> None:
    """Load the sitecustomize that this one shadows."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if found is not None and found.loader is not None:
        found.loader.exec_module(importlib.util.module_from_spec(found))


if os.environ.get("DI_LOCAL_ADDRESS"):
    _listen_on(os.environ["DI_LOCAL_ADDRESS"])
if os.environ.get("DI_LOCAL_HOSTS"):
    _find_by(os.environ["DI_LOCAL_HOSTS"])
_load_the_next()
