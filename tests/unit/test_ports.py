"""Ports that tests give to programs."""

from __future__ import annotations

import socket

import pytest

from tests.ports import held_port

ADDRESSES = ("127.0.0.1", "127.22.7.3", "0.0.0.0")


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_program_listens_on_its_held_port_again_and_again(address: str) -> None:
    with held_port() as port:
        for _ in range(2):
            with socket.create_server((address, port)):
                socket.create_connection((address, port)).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, port))


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_held_port_is_bound_for_everyone_else(address: str) -> None:
    with held_port() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((address, port))
