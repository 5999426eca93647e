"""Listening sockets for both address families."""

from __future__ import annotations

import socket
from typing import Final

from di_service.settings import Address

ANY: Final = "::"
"""Host that means all addresses of both families."""
_ANY_IPV4: Final = "0.0.0.0"
_LOCAL: Final = "localhost"
_IPV4_LOOPBACK: Final = "127.0.0.1"
_IPV6_LOOPBACK: Final = "::1"


def bound(address: Address) -> list[socket.socket]:
    """Return sockets that are bound to an address and do not listen yet.

    `::` is one socket for IPv6 and IPv4, or for IPv4 only if the system has no IPv6. `localhost` is
    each loopback address of the system. With port 0 all sockets get the same free port.

    Raises:
        OSError: the address is in use, or does not belong to this machine.
    """
    if address.host == ANY:
        return [_bound_to_all(address.port)]
    if address.host != _LOCAL:
        return [_bound_to(address.host, address.port)]
    first = _bound_to(_IPV4_LOOPBACK, address.port)
    try:
        second = _bound_to(_IPV6_LOOPBACK, first.getsockname()[1])
    except OSError as error:
        if has_ipv6():
            first.close()
            raise OSError(error.errno, f"{error.strerror}: {address}") from error
        return [first]
    return [first, second]


def has_ipv6() -> bool:
    """Return whether this system has an IPv6 loopback address, as every system with IPv6 has."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind((_IPV6_LOOPBACK, 0))
    except OSError:
        return False
    return True


def _bound_to_all(port: int) -> socket.socket:
    if not has_ipv6():
        return _bound_to(_ANY_IPV4, port)
    sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    # Whatever the value of net.ipv6.bindv6only.
    return _bind(sock, (ANY, port), only_ipv6=False)


def _bound_to(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return _bind(socket.socket(family, socket.SOCK_STREAM), address)


def _bind(
    sock: socket.socket, address: tuple[object, ...], *, only_ipv6: bool = True
) -> socket.socket:
    try:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_ipv6)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock
