"""Listening sockets of both address families."""

from __future__ import annotations

import errno
import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from di_service.serving import listeners
from di_service.settings import Address
from tests.integration.running_front import running

BOTH = ("127.0.0.1", "::1")


@contextmanager
def listening(host: str, port: int = 0) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        found = [
            stack.enter_context(each) for each in listeners.bound(Address(host=host, port=port))
        ]
        for each in found:
            each.listen()
        yield found


@pytest.mark.parametrize("host", ["::", "localhost"])
@pytest.mark.parametrize("client", BOTH)
def test_clients_of_both_families_reach_the_same_port(host: str, client: str) -> None:
    with listening(host) as found:
        port = found[0].getsockname()[1]
        socket.create_connection((client, port), 10).close()


@pytest.mark.parametrize(("host", "other"), [BOTH, BOTH[::-1]])
def test_a_named_address_is_the_only_one(host: str, other: str) -> None:
    with listening(host) as found, pytest.raises(ConnectionRefusedError):
        socket.create_connection((other, found[0].getsockname()[1]), 10)


@pytest.mark.parametrize("host", ["::", "localhost"])
def test_a_system_without_ipv6_listens_for_ipv4(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = socket.socket

    def without_ipv6(family: int = socket.AF_INET, *more: int, **named: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *more, **named)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    found = listeners.bound(Address(host=host, port=0))
    monkeypatch.undo()
    with ExitStack() as stack:
        (only,) = (stack.enter_context(each) for each in found)
        only.listen()
        socket.create_connection(("127.0.0.1", only.getsockname()[1]), 10).close()


@pytest.mark.parametrize("host", ["::", "localhost", "127.0.0.1"])
def test_a_taken_port_is_an_error(host: str) -> None:
    with (
        listening(host) as found,
        pytest.raises(OSError, match="in use"),
        listening(host, found[0].getsockname()[1]),
    ):
        pass


def test_an_ipv4_caller_at_a_socket_of_both_families_has_its_plain_address() -> None:
    with running(host="::") as server:
        for host in BOTH:
            client = http.client.HTTPConnection(host, server.port, timeout=60)
            client.request("GET", "/")
            assert client.getresponse().status == 200
            client.close()
        assert [each["REMOTE_ADDR"] for each in server.app.calls] == list(BOTH)
