"""An API server that accepts no connection: the error says so, not that a request is unanswered."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from di_kube import sync
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import Unavailable, Unwritten
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient


@pytest.fixture
def deaf() -> Iterator[KubeConfig]:
    """A listener whose queue is full: Linux drops what else wants to connect."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        stack.enter_context(socket.create_connection(address))
        yield KubeConfig(server=f"http://127.0.0.1:{address[1]}")


def test_a_request_without_a_connection_names_the_time_for_one(deaf: KubeConfig) -> None:
    async def ask() -> None:
        async with KubeClient(config=deaf, timeout=60.0, connect_timeout=0.2) as client:
            await client.get(DIJOBS, "a", "ns")

    with pytest.raises(Unavailable, match=r"Timeout: no connection within 0\.2 s"):
        asyncio.run(ask())


def test_a_blocking_request_without_a_connection_names_the_time_for_one(
    deaf: KubeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_CONNECT_TIMEOUT", 0.2)
    with (
        SyncKubeClient(config=deaf) as client,
        pytest.raises(Unwritten, match=r"Timeout: no connection within 0\.2 s"),
    ):
        client.get(DIJOBS, "a", "ns")


def test_a_blocking_request_to_a_closed_port_was_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        SyncKubeClient(config=KubeConfig(server=f"http://127.0.0.1:{port}")) as client,
        pytest.raises(Unwritten) as caught,
    ):
        client.get(DIJOBS, "a", "ns")
    assert caught.value.reason == "ConnectionError"
